"""Settings files: `config.yaml` composes the defaults of `dance.config` with one experiment."""
