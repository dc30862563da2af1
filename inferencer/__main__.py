"""``torchrun --nproc-per-node N -m inferencer RUN``"""

from .main import main

main()
