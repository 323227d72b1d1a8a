// RUN: padc-opt -p decompose-computed-kernels{target=iOS16} %s | filecheck %s --check-prefixes=CHECK,OLD
// RUN: padc-opt -p decompose-computed-kernels{target=iOS17} %s | filecheck %s --check-prefixes=CHECK,NEW

// CHECK-LABEL: func.func @dilated
// CHECK:         %[[W:.*]] = tcp.pad %w, %{{.*}} lowerExpansion [0, 0, 0, 0] upperExpansion [0, 0, 0, 0] interiorExpansion [0, 0, 1, 2] : tensor<4x2x3x3xf32>, f32 -> tensor<4x2x5x7xf32>
// CHECK-NEXT:    tcp.conv %x, %[[W]] strides [1, 1] dilations [1, 1]
func.func @dilated(%x : tensor<1x2x9x9xf32>, %w : tensor<4x2x3x3xf32>) -> tensor<1x4x5x3xf32> {
  %0 = tcp.conv %x, %w strides [1, 1] dilations [2, 3] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x2x9x9xf32>, tensor<4x2x3x3xf32> -> tensor<1x4x5x3xf32>
  return %0 : tensor<1x4x5x3xf32>
}

// CHECK-LABEL: func.func @not_dilated
// CHECK-NEXT:    tcp.conv %x, %w
func.func @not_dilated(%x : tensor<1x2x9x9xf32>, %w : tensor<4x2x3x3xf32>) -> tensor<1x4x7x7xf32> {
  %0 = tcp.conv %x, %w strides [1, 1] dilations [1, 1] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x2x9x9xf32>, tensor<4x2x3x3xf32> -> tensor<1x4x7x7xf32>
  return %0 : tensor<1x4x7x7xf32>
}

// CHECK-LABEL: func.func @constant
// CHECK-NOT:     tcp.pad
// CHECK:         tcp.conv_transpose {{.*}} dilations [2]
func.func @constant(%x : tensor<1x1x4xf32>) -> tensor<1x1x8xf32> {
  %l = torch.vtensor.literal(dense<1.0> : tensor<1x1x3xf32>) : !torch.vtensor<[1,1,3],f32>
  %w = torch_c.to_builtin_tensor %l : !torch.vtensor<[1,1,3],f32> -> tensor<1x1x3xf32>
  %0 = tcp.conv_transpose %x, %w strides [1] dilations [2] groups 1 dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x1x4xf32>, tensor<1x1x3xf32> -> tensor<1x1x8xf32>
  return %0 : tensor<1x1x8xf32>
}

// A constant in an order of its own is transposed, and no constant then.
// CHECK-LABEL: func.func @transposed_constant
// OLD:           tcp.conv %
// NEW:           tcp.conv_transpose
func.func @transposed_constant(%x : tensor<1x1x4xf32>) -> tensor<1x1x8xf32> {
  %l = torch.vtensor.literal(dense<1.0> : tensor<3x1x1xf32>) : !torch.vtensor<[3,1,1],f32>
  %w = torch_c.to_builtin_tensor %l : !torch.vtensor<[3,1,1],f32> -> tensor<3x1x1xf32>
  %0 = tcp.conv_transpose %x, %w strides [1] dilations [2] groups 1 dims <[b, f, 0] x [0, i, o] -> [b, f, 0]> : tensor<1x1x4xf32>, tensor<3x1x1xf32> -> tensor<1x1x8xf32>
  return %0 : tensor<1x1x8xf32>
}

// CHECK-LABEL: func.func @computed
// OLD:           torch.aten.flip
// OLD:           tcp.pad %x
// OLD:           tcp.pad %{{.*}} interiorExpansion [0, 0, 1]
// OLD:           tcp.conv %{{.*}} dilations [1]
// NEW:           %[[W:.*]] = tcp.pad %w, %{{.*}} interiorExpansion [0, 0, 1]
// NEW-NEXT:      tcp.conv_transpose %x, %[[W]] strides [2] dilations [1] groups 1 lowerExpansion [-1]
func.func @computed(%x : tensor<1x2x4xf32>, %w : tensor<2x6x3xf32>) -> tensor<1x6x10xf32> {
  %0 = tcp.conv_transpose %x, %w strides [2] dilations [2] groups 1 lowerExpansion [-1] dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x4xf32>, tensor<2x6x3xf32> -> tensor<1x6x10xf32>
  return %0 : tensor<1x6x10xf32>
}

// A computed bias could only be added apart.
// CHECK-LABEL: func.func @computed_bias
// CHECK:         tcp.conv %{{.*}}, %{{.*}}, %b strides [1]
func.func @computed_bias(%x : tensor<1x2x4xf32>, %w : tensor<2x6x3xf32>, %b : tensor<6xf32>) -> tensor<1x6x9xf32> {
  %0 = tcp.conv_transpose %x, %w, %b strides [2] dilations [1] groups 1 dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x4xf32>, tensor<2x6x3xf32>, tensor<6xf32> -> tensor<1x6x9xf32>
  return %0 : tensor<1x6x9xf32>
}
