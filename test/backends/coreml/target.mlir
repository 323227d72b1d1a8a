// RUN: padc-opt -t 'mil{target=iOS16}' %s | filecheck %s

// CHECK:      main[CoreML6](%x: (2,fp32)(Tensor)) {
// CHECK:        %y: (2,fp32)(Tensor) = relu(x=%x, name="relu")
// CHECK-NEXT: } -> (%y)
func.func @main(%x : tensor<2xf32> {padc.name = "x"}) -> (tensor<2xf32> {padc.name = "y"}) {
  %0 = mil.relu(x = %x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
