// RUN: padc-opt %s -p 'pack-layouts{vector-bytes=64}' | filecheck %s

// Weights are packed when they are bound; the input and the result here.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %kernel_1: tensor<4x2x3x3x16x16xf32> {padc.weight = "kernel", padc.split = array<i64: 4, 16, 2, 16, 3, 3>, padc.order = array<i64: 0, 2, 4, 5, 3, 1>}
// CHECK:         tensor.expand_shape %x
// CHECK:         -> tensor<1x2x58x58x16xf32>
// CHECK:         linalg.generic {{.*}}(d0, d4, (d2 + d5), (d3 + d6), d7)>, affine_map<{{.*}} -> (d1, d4, d5, d6, d7, d8)>, affine_map<{{.*}} -> (d0, d1, d2, d3, d8)>
// CHECK:         -> tensor<1x4x56x56x16xf32>
// CHECK:         arith.maximumf
// CHECK:         -> tensor<1x4x56x56x16xf32>
// CHECK:         tensor.pad {{.*}} low[0, 0, 1, 1, 0] high[0, 0, 1, 1, 0]
// CHECK:         tensor.collapse_shape {{.*}} into tensor<1x64x58x58xf32>
func.func @main(%x: tensor<1x32x58x58xf32>, %kernel: tensor<64x32x3x3xf32> {padc.weight = "kernel"}) -> tensor<1x64x58x58xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x64x56x56xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32>
  %sum = linalg.conv_2d_nchw_fchw {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>} ins(%x, %kernel : tensor<1x32x58x58xf32>, tensor<64x32x3x3xf32>) outs(%start : tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32>
  %relu = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%sum : tensor<1x64x56x56xf32>) outs(%empty : tensor<1x64x56x56xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %zero : f32
    linalg.yield %c : f32
  } -> tensor<1x64x56x56xf32>
  %padded = tensor.pad %relu low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x64x56x56xf32> to tensor<1x64x58x58xf32>
  func.return %padded : tensor<1x64x58x58xf32>
}

// A convolution of one pixel saves less time than the conversions take.
// CHECK-LABEL: func.func @alone(
// CHECK:         linalg.conv_2d_nchw_fchw
func.func @alone(%x: tensor<1x16x20x20xf32>, %kernel: tensor<16x16x1x1xf32> {padc.weight = "kernel"}, %start: tensor<1x16x20x20xf32>) -> tensor<1x16x20x20xf32> {
  %sum = linalg.conv_2d_nchw_fchw {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>} ins(%x, %kernel : tensor<1x16x20x20xf32>, tensor<16x16x1x1xf32>) outs(%start : tensor<1x16x20x20xf32>) -> tensor<1x16x20x20xf32>
  func.return %sum : tensor<1x16x20x20xf32>
}

// CHECK-LABEL: func.func @no_weights(%x: tensor<4xf32>, %y: tensor<4xf32>)
func.func @no_weights(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  func.return %y : tensor<4xf32>
}
