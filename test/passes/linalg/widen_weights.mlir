// RUN: padc-opt -p widen-weights %s | filecheck %s

// A weight that is converted twice becomes one argument.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<2x3xbf16>, %{{[^:]*}}: tensor<2x3xbf16> {padc.weight = "w"}, %[[WIDE:[^:]*]]: tensor<2x3xf32> {padc.weight = "w", padc.narrow = bf16})
// CHECK:         %[[Y:[^ ]*]] = linalg.generic
// CHECK-NOT:     linalg.generic
// CHECK:         return %[[Y]], %[[WIDE]], %[[WIDE]] :
func.func @main(%x: tensor<2x3xbf16>, %w: tensor<2x3xbf16> {padc.weight = "w"}) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %empty = tensor.empty() : tensor<2x3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x3xbf16>) outs(%empty : tensor<2x3xf32>) {
  ^bb0(%a: bf16, %b: f32):
    %c = arith.extf %a : bf16 to f32
    linalg.yield %c : f32
  } -> tensor<2x3xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<2x3xbf16>) outs(%empty : tensor<2x3xf32>) {
  ^bb0(%a: bf16, %b: f32):
    %c = arith.extf %a : bf16 to f32
    linalg.yield %c : f32
  } -> tensor<2x3xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<2x3xbf16>) outs(%empty : tensor<2x3xf32>) {
  ^bb0(%a: bf16, %b: f32):
    %c = arith.extf %a : bf16 to f32
    linalg.yield %c : f32
  } -> tensor<2x3xf32>
  return %y, %u, %v : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// Moved elements, other types, and other functions of a weight stay.
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     padc.narrow
// CHECK-COUNT-3: linalg.generic
func.func @others(%w: tensor<3xf16> {padc.weight = "w"}) -> (tensor<2x3xf32>, tensor<3xf64>, tensor<3xf32>) {
  %rows = tensor.empty() : tensor<2x3xf32>
  %x = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<3xf16>) outs(%rows : tensor<2x3xf32>) {
  ^bb0(%a: f16, %b: f32):
    %c = arith.extf %a : f16 to f32
    linalg.yield %c : f32
  } -> tensor<2x3xf32>
  %doubles = tensor.empty() : tensor<3xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%w : tensor<3xf16>) outs(%doubles : tensor<3xf64>) {
  ^bb0(%a: f16, %b: f64):
    %c = arith.extf %a : f16 to f64
    linalg.yield %c : f64
  } -> tensor<3xf64>
  %floats = tensor.empty() : tensor<3xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%w : tensor<3xf16>) outs(%floats : tensor<3xf32>) {
  ^bb0(%a: f16, %b: f32):
    %c = arith.extf %a : f16 to f32
    %d = math.exp %c : f32
    linalg.yield %d : f32
  } -> tensor<3xf32>
  return %x, %y, %z : tensor<2x3xf32>, tensor<3xf64>, tensor<3xf32>
}
