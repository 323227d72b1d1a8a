# pyright: basic
"""The cycles of convolutions, and the tiles that are chosen by them."""

import pytest

from padc.passes.linalg.winograd_cost import Shape

SMALL = Shape(1, 8, 8, 16, 16, 16)
MANY_TILES = Shape(1, 56, 56, 64, 64, 16)
MANY_WEIGHTS = Shape(1, 56, 56, 512, 512, 16)


def test_the_cost_model_chooses():
    assert MANY_TILES.best_tile() == 4
    assert Shape(1, 28, 28, 128, 128, 16).best_tile() == 4
    assert Shape(1, 14, 14, 256, 256, 16).best_tile() == 2
    assert Shape(1, 7, 7, 512, 512, 16).best_tile() is None
    assert Shape(1, 2, 2, 64, 64, 16).best_tile() != 4


def test_tiles_of_so_many_channels_do_not_fit():
    """Not one fits into the scratch memory."""
    shape = Shape(1, 56, 56, 8208, 16, 16)

    assert shape.most_tiles(2) == 0
    assert shape.best_tile() is None


def test_no_tile_is_chosen_that_does_not_fit():
    """Tiles of 4 would be faster with vectors of 4, though each reads all weights."""
    shape = Shape(1, 56, 56, 3648, 16, 4)

    assert shape.most_tiles(4) == 0 and shape.most_tiles(2) > 0
    assert shape.best_tile() != 4


def test_blocks_are_small_where_all_weights_stay_in_the_cache():
    tiles = MANY_TILES.tiles(4)

    assert tiles == 14 * 14
    assert MANY_TILES.filter_bytes(6) < 1 << 20
    assert MANY_TILES.block(4) == 28
    # 36 elements of 512 channels, of which 512 KB hold seven.
    assert MANY_WEIGHTS.block(4) == MANY_WEIGHTS.most_tiles(4) == 7
    # Between both: more weights than stay, and room for more tiles than 28.
    between = Shape(1, 56, 56, 96, 96, 16)
    assert between.filter_bytes(6) > 1 << 20
    assert between.block(4) > 28


@pytest.mark.parametrize(
    "shape, expected",
    [
        # 4 tiles of 36 products, transforms, and weights that are read once.
        (SMALL, 4 * 36 * 16 * 16 / 32 + 4 * (120 + 170) + 36 * 16 * 16),
        # 7 blocks of 28 tiles, for which weights stay in the second cache.
        (MANY_TILES, 196 * (36 * 64 * 64 / 32 + 4 * (120 + 170)) + 36 * 64 * 64),
        # 28 blocks of 7 tiles, each of which reads all weights.
        (
            MANY_WEIGHTS,
            196 * (36 * 512 * 512 / 32 + 32 * (120 + 170))
            + 36 * 512 * 512 * (1 + 27 * 4 / 20),
        ),
    ],
)
def test_cycles(shape: Shape, expected: float):
    assert shape.winograd_cycles(4) == pytest.approx(expected)
