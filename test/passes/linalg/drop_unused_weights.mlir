// RUN: padc-opt -p drop-unused-weights %s | filecheck %s

// Inputs stay, whether they are read or not.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %{{[^:]*}}: tensor<2xf32>, %[[B:[^:]*]]: tensor<2xf32> {padc.weight = "b"}, %{{[^:]*}}: tensor<3xf32>) -> tensor<2xf32>
// CHECK-NEXT:    return %[[B]] : tensor<2xf32>
func.func @main(%x: tensor<2xf32>, %a: tensor<4x2xf32> {padc.weight = "a"}, %b: tensor<2xf32> {padc.weight = "b"}, %c: tensor<8xf32> {padc.weight = "c"}, %y: tensor<3xf32>) -> tensor<2xf32> {
  // What only reshapes a weight does not read it.
  %d = tensor.expand_shape %c [[0 : i64, 1 : i64]] output_shape [4, 2] : tensor<8xf32> into tensor<4x2xf32>
  return %b : tensor<2xf32>
}

// Nothing to drop, and no attributes.
// CHECK-LABEL: func.func @inputs(%{{[^:]*}}: tensor<2xf32>) {
func.func @inputs(%x: tensor<2xf32>) {
  return
}
