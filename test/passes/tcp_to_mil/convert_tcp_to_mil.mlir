// RUN: padc-opt -p convert-tcp-to-mil %s | filecheck %s

// Which Core ML ops are chosen; that they compute the same is tested in Python.

// CHECK-LABEL: func.func @zero_pad_into_conv
// CHECK-NEXT:    mil.conv(x = %x, weight = %w, strides = [1, 1], pad_type = "custom", pad = [1, 2, 0, 3], dilations = [1, 1], groups = 1)
// CHECK-NEXT:    return
func.func @zero_pad_into_conv(%x : tensor<1x2x6x6xf32>, %w : tensor<4x2x3x3xf32>) -> tensor<1x4x7x7xf32> {
  %f = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, 0, 1, 0] upperExpansion [0, 0, 2, 3] : tensor<1x2x6x6xf32>, f32 -> tensor<1x2x9x9xf32>
  %1 = tcp.conv %0, %w strides [1, 1] dilations [1, 1] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x2x9x9xf32>, tensor<4x2x3x3xf32> -> tensor<1x4x7x7xf32>
  return %1 : tensor<1x4x7x7xf32>
}

// The order of `pad` is that of the spatial dimensions, not of the tensor's.
// CHECK-LABEL: func.func @zero_pad_into_conv_of_other_order
// CHECK:         mil.conv({{.*}}pad = [3, 4, 1, 2]
func.func @zero_pad_into_conv_of_other_order(%x : tensor<1x6x6x2xf32>, %w : tensor<4x2x3x3xf32>) -> tensor<1x4x11x7xf32> {
  %f = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, 1, 3, 0] upperExpansion [0, 2, 4, 0] : tensor<1x6x6x2xf32>, f32 -> tensor<1x9x13x2xf32>
  %1 = tcp.conv %0, %w strides [1, 1] dilations [1, 1] groups 1 dims <[b, 1, 0, f] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x9x13x2xf32>, tensor<4x2x3x3xf32> -> tensor<1x4x11x7xf32>
  return %1 : tensor<1x4x11x7xf32>
}

// CHECK-LABEL: func.func @pad_of_two_users
// CHECK-NEXT:    mil.conv(x = %x, {{.*}}pad = [1, 0]
// CHECK-NEXT:    mil.conv(x = %x, {{.*}}pad = [1, 0]
func.func @pad_of_two_users(%x : tensor<1x2x6xf32>, %w : tensor<4x2x3xf32>) -> (tensor<1x4x5xf32>, tensor<1x4x5xf32>) {
  %f = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, 0, 1] upperExpansion [0, 0, 0] : tensor<1x2x6xf32>, f32 -> tensor<1x2x7xf32>
  %1 = tcp.conv %0, %w strides [1] dilations [1] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x7xf32>, tensor<4x2x3xf32> -> tensor<1x4x5xf32>
  %2 = tcp.conv %0, %w strides [1] dilations [1] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x7xf32>, tensor<4x2x3xf32> -> tensor<1x4x5xf32>
  return %1, %2 : tensor<1x4x5xf32>, tensor<1x4x5xf32>
}

// What cannot take the pad into itself uses the one that is made.
// CHECK-LABEL: func.func @pad_of_users_of_two_kinds
// CHECK-NEXT:    %[[P:.*]] = mil.pad(x = %x
// CHECK-NEXT:    mil.conv(x = %x, {{.*}}pad = [1, 0]
// CHECK-NEXT:    mil.max_pool(x = %[[P]], {{.*}}pad = [0, 0]
// CHECK-NEXT:    return %[[P]],
func.func @pad_of_users_of_two_kinds(%x : tensor<1x2x6xf32>, %w : tensor<4x2x3xf32>) -> (tensor<1x2x7xf32>, tensor<1x4x5xf32>, tensor<1x2x5xf32>) {
  %f = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, 0, 1] upperExpansion [0, 0, 0] : tensor<1x2x6xf32>, f32 -> tensor<1x2x7xf32>
  %1 = tcp.conv %0, %w strides [1] dilations [1] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x7xf32>, tensor<4x2x3xf32> -> tensor<1x4x5xf32>
  %2 = tcp.max_pool %0 kernel [3] strides [1] dilations [1] dims [2] : tensor<1x2x7xf32> -> tensor<1x2x5xf32>
  return %0, %1, %2 : tensor<1x2x7xf32>, tensor<1x4x5xf32>, tensor<1x2x5xf32>
}

// Core ML's op can only crop: elements are added by a pad, and the bias after it.
// CHECK-LABEL: func.func @conv_transpose
// CHECK:         mil.conv_transpose(x = %x, weight = %w, bias = %b, {{.*}}pad = [1, 0]
// CHECK-NEXT:    %[[Y:.*]] = mil.conv_transpose(x = %x, weight = %w, strides = [3], pad_type = "custom", pad = [1, 0]
// CHECK-NEXT:    %[[P:.*]] = mil.pad(x = %[[Y]], pad = [0, 2], mode = "constant", constant_val = 0.0)
// CHECK:         torch.aten.reshape
// CHECK:         torch.aten.add.Tensor
// CHECK:         return
func.func @conv_transpose(%x : tensor<1x2x6xf32>, %w : tensor<2x4x3xf32>) -> (tensor<1x4x17xf32>, tensor<1x4x19xf32>) {
  %l = torch.vtensor.literal(dense<1.0> : tensor<4xf32>) : !torch.vtensor<[4],f32>
  %b = torch_c.to_builtin_tensor %l : !torch.vtensor<[4],f32> -> tensor<4xf32>
  %0 = tcp.conv_transpose %x, %w, %b strides [3] dilations [1] groups 1 lowerExpansion [-1] dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x6xf32>, tensor<2x4x3xf32>, tensor<4xf32> -> tensor<1x4x17xf32>
  %1 = tcp.conv_transpose %x, %w, %b strides [3] dilations [1] groups 1 lowerExpansion [-1] upperExpansion [2] dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x6xf32>, tensor<2x4x3xf32>, tensor<4xf32> -> tensor<1x4x19xf32>
  return %0, %1 : tensor<1x4x17xf32>, tensor<1x4x19xf32>
}

// Two of the added elements are cropped, which must happen after the pad.
// CHECK-LABEL: func.func @conv_transpose_cropped_away
// CHECK-NEXT:    mil.conv_transpose({{.*}}pad = [0, 0]
// CHECK-NEXT:    mil.pad({{.*}}pad = [0, 3]
// CHECK-NEXT:    mil.slice_by_index
// CHECK-NEXT:    return
func.func @conv_transpose_cropped_away(%x : tensor<1x2x1xf32>, %w : tensor<2x4x1xf32>) -> tensor<1x4x1xf32> {
  %0 = tcp.conv_transpose %x, %w strides [9] dilations [1] groups 1 lowerExpansion [-3] upperExpansion [3] dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x1xf32>, tensor<2x4x1xf32> -> tensor<1x4x1xf32>
  return %0 : tensor<1x4x1xf32>
}

// CHECK-LABEL: func.func @pad_of_features
// CHECK:         mil.pad
// CHECK:         mil.conv({{.*}}pad = [0, 0]
func.func @pad_of_features(%x : tensor<1x1x6xf32>, %w : tensor<4x2x3xf32>) -> tensor<1x4x5xf32> {
  %f = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, 1, 1] upperExpansion [0, 0, 0] : tensor<1x1x6xf32>, f32 -> tensor<1x2x7xf32>
  %1 = tcp.conv %0, %w strides [1] dilations [1] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x7xf32>, tensor<4x2x3xf32> -> tensor<1x4x5xf32>
  return %1 : tensor<1x4x5xf32>
}

// What is cropped is a slice, in any dimension; the rest is the convolution's own.
// CHECK-LABEL: func.func @negative_amounts
// CHECK-NEXT:    %[[F:.*]] = mil.slice_by_index(x = %x, begin = [0, 1, 0]
// CHECK-NEXT:    %[[X:.*]] = mil.slice_by_index(x = %[[F]], begin = [0, 0, 1]
// CHECK-NEXT:    mil.conv(x = %[[X]], {{.*}}pad = [0, 2]
// CHECK-NEXT:    return
func.func @negative_amounts(%x : tensor<1x3x6xf32>, %w : tensor<4x2x3xf32>) -> tensor<1x4x5xf32> {
  %f = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, -1, -1] upperExpansion [0, 0, 2] : tensor<1x3x6xf32>, f32 -> tensor<1x2x7xf32>
  %1 = tcp.conv %0, %w strides [1] dilations [1] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x7xf32>, tensor<4x2x3xf32> -> tensor<1x4x5xf32>
  return %1 : tensor<1x4x5xf32>
}

// CHECK-LABEL: func.func @negative_amounts_and_pools
// CHECK-NEXT:    %[[X:.*]] = mil.slice_by_index(x = %x, begin = [0, 0, 1]
// CHECK-NEXT:    mil.avg_pool(x = %[[X]], {{.*}}pad = [0, 2], {{.*}}exclude_padding_from_average = true
// CHECK-NEXT:    return
func.func @negative_amounts_and_pools(%x : tensor<1x2x6xf32>) -> tensor<1x2x5xf32> {
  %f = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, 0, -1] upperExpansion [0, 0, 2] : tensor<1x2x6xf32>, f32 -> tensor<1x2x7xf32>
  %1 = tcp.avg_pool %0 kernel [3] strides [1] dilations [1] dims [2] uncountedUpper [2] : tensor<1x2x7xf32> -> tensor<1x2x5xf32>
  return %1 : tensor<1x2x5xf32>
}

// CHECK-LABEL: func.func @other_fill
// CHECK-NEXT:    mil.pad({{.*}}constant_val = 1.0)
// CHECK-NEXT:    mil.conv({{.*}}pad = [0, 0]
func.func @other_fill(%x : tensor<1x2x6xf32>, %w : tensor<4x2x3xf32>) -> tensor<1x4x5xf32> {
  %f = arith.constant 1.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, 0, 1] upperExpansion [0, 0, 0] : tensor<1x2x6xf32>, f32 -> tensor<1x2x7xf32>
  %1 = tcp.conv %0, %w strides [1] dilations [1] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x7xf32>, tensor<4x2x3xf32> -> tensor<1x4x5xf32>
  return %1 : tensor<1x4x5xf32>
}

// CHECK-LABEL: func.func @least_pad_into_max_pool
// CHECK-NEXT:    mil.max_pool(x = %x, kernel_sizes = [3], strides = [1], pad_type = "custom", pad = [1, 2], ceil_mode = false)
// CHECK-NEXT:    return
func.func @least_pad_into_max_pool(%x : tensor<1x2x6xf32>) -> tensor<1x2x7xf32> {
  %f = arith.constant 0xFF800000 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, 0, 1] upperExpansion [0, 0, 2] : tensor<1x2x6xf32>, f32 -> tensor<1x2x9xf32>
  %1 = tcp.max_pool %0 kernel [3] strides [1] dilations [1] dims [2] : tensor<1x2x9xf32> -> tensor<1x2x7xf32>
  return %1 : tensor<1x2x7xf32>
}

// CHECK-LABEL: func.func @zero_pad_and_max_pool
// CHECK-NEXT:    mil.pad
// CHECK-NEXT:    mil.max_pool({{.*}}pad = [0, 0]
func.func @zero_pad_and_max_pool(%x : tensor<1x2x6xf32>) -> tensor<1x2x7xf32> {
  %f = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, 0, 1] upperExpansion [0, 0, 2] : tensor<1x2x6xf32>, f32 -> tensor<1x2x9xf32>
  %1 = tcp.max_pool %0 kernel [3] strides [1] dilations [1] dims [2] : tensor<1x2x9xf32> -> tensor<1x2x7xf32>
  return %1 : tensor<1x2x7xf32>
}

// The first window has no element of the input.
// CHECK-LABEL: func.func @pad_as_wide_as_the_kernel
// CHECK-NEXT:    mil.pad
// CHECK-NEXT:    mil.max_pool({{.*}}pad = [0, 0]
func.func @pad_as_wide_as_the_kernel(%x : tensor<1x2x6xf32>) -> tensor<1x2x8xf32> {
  %f = arith.constant 0xFF800000 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, 0, 3] upperExpansion [0, 0, 1] : tensor<1x2x6xf32>, f32 -> tensor<1x2x10xf32>
  %1 = tcp.max_pool %0 kernel [3] strides [1] dilations [1] dims [2] : tensor<1x2x10xf32> -> tensor<1x2x8xf32>
  return %1 : tensor<1x2x8xf32>
}

// Tap by tap: what is larger, or NaN, which Core ML's maximum may lose.
// CHECK-LABEL: func.func @dilated_max_pool
// CHECK-NEXT:    mil.slice_by_index
// CHECK-NEXT:    mil.slice_by_index
// CHECK-NEXT:    mil.greater
// CHECK-NEXT:    mil.not_equal
// CHECK-NEXT:    mil.logical_or
// CHECK-NEXT:    mil.select
// CHECK-NEXT:    return
func.func @dilated_max_pool(%x : tensor<1x2x6xf32>) -> tensor<1x2x4xf32> {
  %1 = tcp.max_pool %x kernel [2] strides [1] dilations [2] dims [2] : tensor<1x2x6xf32> -> tensor<1x2x4xf32>
  return %1 : tensor<1x2x4xf32>
}

// CHECK-LABEL: func.func @zero_pad_into_avg_pool
// CHECK-NEXT:    mil.avg_pool(x = %x, {{.*}}pad = [1, 1], {{.*}}exclude_padding_from_average = false
// CHECK-NEXT:    mil.avg_pool(x = %x, {{.*}}pad = [1, 1], {{.*}}exclude_padding_from_average = true
// CHECK-NEXT:    return
func.func @zero_pad_into_avg_pool(%x : tensor<1x2x6xf32>) -> (tensor<1x2x6xf32>, tensor<1x2x6xf32>) {
  %f = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, 0, 1] upperExpansion [0, 0, 1] : tensor<1x2x6xf32>, f32 -> tensor<1x2x8xf32>
  %1 = tcp.avg_pool %0 kernel [3] strides [1] dilations [1] dims [2] : tensor<1x2x8xf32> -> tensor<1x2x6xf32>
  %2 = tcp.pad %x, %f lowerExpansion [0, 0, 1] upperExpansion [0, 0, 1] : tensor<1x2x6xf32>, f32 -> tensor<1x2x8xf32>
  %3 = tcp.avg_pool %2 kernel [3] strides [1] dilations [1] dims [2] uncountedLower [1] uncountedUpper [1] : tensor<1x2x8xf32> -> tensor<1x2x6xf32>
  return %1, %3 : tensor<1x2x6xf32>, tensor<1x2x6xf32>
}

// Core ML counts all padding or none; the factor makes up for it.
// CHECK-LABEL: func.func @other_counts
// CHECK-NEXT:    mil.pad
// CHECK-NEXT:    mil.avg_pool({{.*}}pad = [0, 0], {{.*}}exclude_padding_from_average = false
// CHECK-NEXT:    mil.mul
func.func @other_counts(%x : tensor<1x2x6xf32>) -> tensor<1x2x6xf32> {
  %f = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, 0, 1] upperExpansion [0, 0, 1] : tensor<1x2x6xf32>, f32 -> tensor<1x2x8xf32>
  %1 = tcp.avg_pool %0 kernel [3] strides [1] dilations [1] dims [2] uncountedUpper [1] : tensor<1x2x8xf32> -> tensor<1x2x6xf32>
  return %1 : tensor<1x2x6xf32>
}

// CHECK-LABEL: func.func @border_pads_of_the_last_two
// CHECK-NEXT:    mil.pad(x = %x, pad = [2, 0, 0, 3], mode = "replicate", constant_val = 0.0)
// CHECK-NEXT:    mil.pad(x = %x, pad = [0, 3], mode = "reflect", constant_val = 0.0)
// CHECK-NEXT:    return
func.func @border_pads_of_the_last_two(%x : tensor<1x2x2x2x4xf32>) -> (tensor<1x2x2x4x7xf32>, tensor<1x2x2x2x7xf32>) {
  %0 = tcp.replication_pad %x lowerExpansion [0, 0, 0, 2, 0] upperExpansion [0, 0, 0, 0, 3] : tensor<1x2x2x2x4xf32> -> tensor<1x2x2x4x7xf32>
  %1 = tcp.reflection_pad %x lowerExpansion [0, 0, 0, 0, 0] upperExpansion [0, 0, 0, 0, 3] : tensor<1x2x2x2x4xf32> -> tensor<1x2x2x2x7xf32>
  return %0, %1 : tensor<1x2x2x4x7xf32>, tensor<1x2x2x2x7xf32>
}

// CHECK-LABEL: func.func @nearest
// CHECK-NEXT:    mil.upsample_nearest_neighbor(x = %x, scale_factor_height = 2, scale_factor_width = 1)
// CHECK-NEXT:    mil.gather
// CHECK-NOT:     mil.upsample_nearest_neighbor
func.func @nearest(%x : tensor<1x2x3x4xf32>) -> (tensor<1x2x6x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x6x4xf32>) {
  %0 = tcp.resample %x size [6, 4] dims [2, 3] mode nearest coordinates half_pixel : tensor<1x2x3x4xf32> -> tensor<1x2x6x4xf32>
  %1 = tcp.resample %x size [5] dims [2] mode nearest coordinates half_pixel : tensor<1x2x3x4xf32> -> tensor<1x2x5x4xf32>
  %2 = tcp.resample %x size [6, 4] dims [2, 3] mode nearest coordinates align_corners : tensor<1x2x3x4xf32> -> tensor<1x2x6x4xf32>
  return %0, %1, %2 : tensor<1x2x6x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x6x4xf32>
}

// CHECK-LABEL: func.func @linear
// CHECK-NEXT:    mil.resize_bilinear({{.*}}sampling_mode = "STRICT_ALIGN_CORNERS")
// CHECK-NEXT:    mil.resize_bilinear({{.*}}sampling_mode = "UNALIGN_CORNERS")
// CHECK-NEXT:    mil.upsample_bilinear({{.*}}scale_factor_height = 2, scale_factor_width = 1)
// CHECK:         mil.gather
func.func @linear(%x : tensor<1x2x3x4xf32>) -> (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x5x4xf32>) {
  %0 = tcp.resample %x size [5, 4] dims [2, 3] mode linear coordinates align_corners : tensor<1x2x3x4xf32> -> tensor<1x2x5x4xf32>
  %1 = tcp.resample %x size [5, 4] dims [2, 3] mode linear coordinates half_pixel : tensor<1x2x3x4xf32> -> tensor<1x2x5x4xf32>
  %2 = tcp.resample %x size [6, 4] dims [2, 3] mode linear coordinates half_pixel : tensor<1x2x3x4xf32> -> tensor<1x2x6x4xf32>
  %3 = tcp.resample %x size [5, 4] dims [2, 3] mode linear coordinates half_pixel {scales = array<f64: 1.7, 1.0>} : tensor<1x2x3x4xf32> -> tensor<1x2x5x4xf32>
  return %0, %1, %2, %3 : tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x5x4xf32>
}
