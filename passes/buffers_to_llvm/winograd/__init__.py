"""
Convolutions by Winograd's algorithm.

    kernel          the loops over blocks of tiles
    tiles           where the tiles are
    fused_winograd  such a convolution with the ops after it
"""
