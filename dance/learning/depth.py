"""How many transformer layers lie above each parameter: what layer-wise learning rates go by."""

from __future__ import annotations

from torch import nn


def depths(model: nn.Module, required: bool) -> dict[nn.Parameter, int]:
    """0 for the top layer, heads and all that no backbone holds; the number of layers for embeddings.

    A backbone tells its layers by its configuration, which counts them. Raises ValueError where its
    layers are ``required`` and cannot be found, as in a model that shares one layer.
    """
    found: dict[nn.Parameter, int] = {}
    for backbone in _backbones(model):
        layers = _layers(backbone)
        if layers is None:
            if required:
                raise ValueError(
                    f"train.layer_decay: {type(backbone).__name__} has no list of its layers to tell apart; set it to 1"
                )
            continue
        found |= _within(backbone, layers)
    return found


def _within(backbone: nn.Module, layers: nn.ModuleList) -> dict[nn.Parameter, int]:
    """What is registered before the layers feeds them, what comes after is fed by them."""
    number = {parameter: at for at, layer in enumerate(layers) for parameter in layer.parameters()}
    depth, current = {}, len(layers)
    for parameter in backbone.parameters():
        if parameter in number:
            current = len(layers) - 1 - number[parameter]
            depth[parameter] = current
        else:
            depth[parameter] = len(layers) if current == len(layers) else 0
    return depth


def _backbones(model: nn.Module) -> list[nn.Module]:
    """The outermost modules that have a configuration with layers."""
    found: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        inside = any(name.startswith(f"{outer}.") or outer == "" for outer in found)
        if not inside and getattr(getattr(module, "config", None), "num_hidden_layers", None):
            found[name] = module
    return list(found.values())


def _layers(backbone: nn.Module) -> nn.ModuleList | None:
    count = backbone.config.num_hidden_layers  # type: ignore[union-attr]
    lists = (module for module in backbone.modules() if isinstance(module, nn.ModuleList))
    return next((layers for layers in lists if len(layers) == count), None)
