"""
A classifier with the paddings that converters get wrong: even kernels with
padding="same", dilations, strides that leave a remainder, and pools in ceil mode.
"""

from torch import Tensor, nn

from examples.seeded import seeded


def same_padding() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(SamePadding, (1, 3, 197, 211), seed=197)


class Conv(nn.Sequential):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: str | int | tuple[int, int] = "same",
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
    ):
        super().__init__(
            nn.Conv2d(
                in_channels, out_channels, kernel, stride, padding, dilation, groups
            ),
            nn.BatchNorm2d(out_channels),
            nn.SiLU(),
        )


class SamePadding(nn.Sequential):
    def __init__(self, classes: int = 100):
        super().__init__(
            Conv(3, 32, 2),  # 197 x 211
            Conv(32, 32, 4),
            Conv(32, 48, (2, 5)),
            Conv(48, 64, (4, 6), stride=2, padding=(1, 2)),  # 98 x 105
            nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),  # 50 x 53
            Conv(64, 64, (4, 3), dilation=(2, 3)),
            Conv(64, 64, 4, groups=64),
            Conv(64, 128, 1),
            Conv(128, 128, (2, 3), dilation=2, groups=8),
            nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True),  # 26 x 27
            Conv(128, 192, (3, 5), stride=(1, 2), padding=(2, 3), dilation=(2, 1)),
            # 26 x 15, where a ninth window in a row would start in the padding.
            nn.AvgPool2d(
                (3, 2), stride=2, padding=1, ceil_mode=True, count_include_pad=False
            ),  # 14 x 8
            Conv(192, 256, 4, dilation=2),
            nn.MaxPool2d(3, stride=(2, 3), padding=(0, 1), ceil_mode=True),  # 7 x 3
            nn.Flatten(),
            nn.Linear(256 * 7 * 3, classes),
        )
