"""``torchrun --nproc-per-node N -m trainer RUN``"""

from .main import main

main()
