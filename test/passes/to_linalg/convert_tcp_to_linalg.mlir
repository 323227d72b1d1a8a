// RUN: padc-opt -p convert-tcp-to-linalg,canonicalize %s | filecheck %s
// RUN: padc-opt -p convert-tcp-to-linalg{border-pads=false} %s | filecheck %s --check-prefix=BORDERS

// What is cropped is sliced away: upstream takes a tensor.pad of less than nothing for
// its input.
// CHECK-LABEL: func.func @crop_and_pad
// CHECK:         %[[X:.*]] = tensor.extract_slice %x[0, 1] [4, 5] [1, 1]
// CHECK-NEXT:    tensor.pad %[[X]] low[2, 0] high[0, 0]
func.func @crop_and_pad(%x: tensor<4x8xf32>) -> tensor<6x5xf32> {
  %zero = arith.constant 0.0 : f32
  %y = tcp.pad %x, %zero lowerExpansion [2, -1] upperExpansion [0, -2] : tensor<4x8xf32>, f32 -> tensor<6x5xf32>
  return %y : tensor<6x5xf32>
}

// An amount that may be either is both.
// CHECK-LABEL: func.func @dynamic
// CHECK:         %[[LEAST:.*]] = arith.minsi %n, %{{.*}}
// CHECK:         %[[OFFSET:.*]] = arith.subi %{{.*}}, %[[LEAST]]
// CHECK:         %[[X:.*]] = tensor.extract_slice %x[%[[OFFSET]], 0]
// CHECK:         %[[MOST:.*]] = arith.maxsi %n, %{{.*}}
// CHECK:         tensor.pad %[[X]] low[%[[MOST]], 0] high[0, 0]
func.func @dynamic(%x: tensor<?x8xf32>, %n: index) -> tensor<?x8xf32> {
  %zero = arith.constant 0.0 : f32
  %y = tcp.pad %x, %zero lowerExpansion [%n, 0] upperExpansion [0, 0] : tensor<?x8xf32>, f32 -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// Upstream refuses slices that start at the end, though they are empty.
// CHECK-LABEL: func.func @nothing_left
// CHECK-NOT:     tensor.extract_slice
// CHECK-NOT:     tensor.pad
// CHECK:         %[[Y:.*]] = linalg.fill
// CHECK:         return %[[Y]]
func.func @nothing_left(%x: tensor<4xf32>) -> tensor<2xf32> {
  %one = arith.constant 1.0 : f32
  %y = tcp.pad %x, %one lowerExpansion [-4] upperExpansion [2] : tensor<4xf32>, f32 -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// One fill, and one insertion; interior amounts are its strides.
// CHECK-LABEL: func.func @interior
// CHECK:         %[[FILL:.*]] = linalg.fill {{.*}} -> tensor<8xf32>
// CHECK-NEXT:    %[[Y:.*]] = tensor.insert_slice %x into %[[FILL]][1] [4] [2]
// CHECK-NEXT:    tensor.extract_slice %[[Y]][0] [6] [1]
// CHECK-NOT:     tensor.pad
func.func @interior(%x: tensor<4xf32>) -> tensor<6xf32> {
  %zero = arith.constant 0.0 : f32
  %y = tcp.pad %x, %zero lowerExpansion [1] upperExpansion [-2] interiorExpansion [1] : tensor<4xf32>, f32 -> tensor<6xf32>
  return %y : tensor<6xf32>
}

// A border pad reads each element from its place in the input, or stays.
// CHECK-LABEL: func.func @border
// CHECK:         linalg.generic
// CHECK:           tensor.extract %x
// BORDERS-LABEL: func.func @border
// BORDERS:         tcp.replication_pad %x
func.func @border(%x: tensor<3xf32>) -> tensor<6xf32> {
  %y = tcp.replication_pad %x lowerExpansion [1] upperExpansion [2] : tensor<3xf32> -> tensor<6xf32>
  return %y : tensor<6xf32>
}

// CHECK-LABEL: func.func @images
// CHECK:         linalg.conv_2d_nchw_fchw
// CHECK-NOT:     linalg.generic
func.func @images(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x3x3xf32> {
  %y = tcp.conv %x, %w strides [2, 2] dilations [1, 1] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x3x3xf32>
  return %y : tensor<1x4x3x3xf32>
}

// Features are split by groups, and joined again.
// CHECK-LABEL: func.func @in_groups
// CHECK:         tensor.expand_shape {{.*}} into tensor<1x2x3x8x8xf32>
// CHECK:         tensor.expand_shape {{.*}} into tensor<2x2x3x3x3xf32>
// CHECK:         linalg.generic
// CHECK:         tensor.collapse_shape {{.*}} into tensor<1x4x6x6xf32>
func.func @in_groups(%x: tensor<1x6x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32> {
  %y = tcp.conv %x, %w strides [1, 1] dilations [1, 1] groups 2 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x6x8x8xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x6x6xf32>
  return %y : tensor<1x4x6x6xf32>
}

// In a depthwise convolution, the group is the feature of all tensors.
// CHECK-LABEL: func.func @depthwise
// CHECK:         tensor.collapse_shape {{.*}} into tensor<6x3x3xf32>
// CHECK-NOT:     tensor.expand_shape
// CHECK:         affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, (d4 + d2), (d5 + d3))>
// CHECK-SAME:    affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d2, d3)>
// CHECK-SAME:    affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d4, d5)>
// CHECK-NOT:     tensor.collapse_shape
func.func @depthwise(%x: tensor<1x6x8x8xf32>, %w: tensor<6x1x3x3xf32>) -> tensor<1x6x6x6xf32> {
  %y = tcp.conv %x, %w strides [1, 1] dilations [1, 1] groups 6 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x6x8x8xf32>, tensor<6x1x3x3xf32> -> tensor<1x6x6x6xf32>
  return %y : tensor<1x6x6x6xf32>
}

// The kernel, which is no weight, is turned by a loop, not by ATen's ops.
// CHECK-LABEL: func.func @transposed
// CHECK:         tensor.insert_slice %x into %{{.*}}[0, 0, 1] [1, 2, 4] [1, 1, 2]
// CHECK-NOT:     torch.aten
// CHECK:         tensor.extract %w
func.func @transposed(%x: tensor<1x2x4xf32>, %w: tensor<2x3x2xf32>) -> tensor<1x3x8xf32> {
  %y = tcp.conv_transpose %x, %w strides [2] dilations [1] groups 1 dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x4xf32>, tensor<2x3x2xf32> -> tensor<1x3x8xf32>
  return %y : tensor<1x3x8xf32>
}
