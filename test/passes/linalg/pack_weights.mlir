// RUN: padc-opt -p pack-weights{vector_bytes=32} %s | filecheck %s

// With 16 registers, 48 columns are three panels of two vectors of eight.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    tensor<3x20x16xf32> {padc.weight = "w", padc.split = array<i64: 3, 16, 20>, padc.order = array<i64: 0, 2, 1>}
// CHECK:         linalg.generic
// CHECK-SAME:      affine_map<(d0, d1, d2, d3) -> (d0, d3)>
// CHECK-SAME:      affine_map<(d0, d1, d2, d3) -> (d1, d3, d2)>
// CHECK-SAME:      affine_map<(d0, d1, d2, d3) -> (d0, ((d1 * 16) + d2))>
// CHECK-SAME:      : tensor<24x20xf32>, tensor<3x20x16xf32>) outs(%{{.*}} : tensor<24x48xf32>)
func.func @main(%x: tensor<24x20xf32>, %w: tensor<48x20xf32> {padc.weight = "w"}, %y: tensor<24x48xf32>) -> tensor<24x48xf32> {
  %z = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<24x20xf32>, tensor<48x20xf32>) outs(%y : tensor<24x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x48xf32>
  return %z : tensor<24x48xf32>
}

// One argument for two products.
// CHECK-LABEL: func.func @shared(
// CHECK-SAME:    padc.split
// CHECK-NOT:     padc.split
// CHECK:         linalg.generic
func.func @shared(%x: tensor<24x20xf32>, %w: tensor<48x20xf32> {padc.weight = "w"}, %y: tensor<24x48xf32>) -> (tensor<24x48xf32>, tensor<24x48xf32>) {
  %z = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<24x20xf32>, tensor<48x20xf32>) outs(%y : tensor<24x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x48xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<24x20xf32>, tensor<48x20xf32>) outs(%z : tensor<24x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x48xf32>
  return %z, %u : tensor<24x48xf32>, tensor<24x48xf32>
}

// No weight; few rows; columns that no vector divides.
// CHECK-LABEL: func.func @kept
// CHECK-NOT:     padc.split
// CHECK-NOT:     d1 *
func.func @kept(%x: tensor<24x20xf32>, %x2: tensor<23x20xf32>, %w0: tensor<48x20xf32>, %w1: tensor<48x20xf32> {padc.weight = "w1"}, %w2: tensor<44x20xf32> {padc.weight = "w2"}, %y: tensor<24x48xf32>, %y1: tensor<23x48xf32>, %y2: tensor<24x44xf32>) -> (tensor<24x48xf32>, tensor<23x48xf32>, tensor<24x44xf32>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w0 : tensor<24x20xf32>, tensor<48x20xf32>) outs(%y : tensor<24x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x48xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x2, %w1 : tensor<23x20xf32>, tensor<48x20xf32>) outs(%y1 : tensor<23x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<23x48xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w2 : tensor<24x20xf32>, tensor<44x20xf32>) outs(%y2 : tensor<24x44xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x44xf32>
  return %0, %1, %2 : tensor<24x48xf32>, tensor<23x48xf32>, tensor<24x44xf32>
}

// The weight is the first input; the number of rows is only known at run time.
// CHECK-LABEL: func.func @first_input
// CHECK-SAME:    tensor<3x20x16xf32> {padc.weight = "w", padc.split = array<i64: 3, 16, 20>, padc.order = array<i64: 0, 2, 1>}
// CHECK:         : tensor<3x20x16xf32>, tensor<?x20xf32>)
func.func @first_input(%x: tensor<?x20xf32>, %w: tensor<48x20xf32> {padc.weight = "w"}, %y: tensor<?x48xf32>) -> tensor<?x48xf32> {
  %z = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%w, %x : tensor<48x20xf32>, tensor<?x20xf32>) outs(%y : tensor<?x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<?x48xf32>
  return %z : tensor<?x48xf32>
}

// Three inputs; no sum; rows of another rank; one column; other arithmetic; two results;
// an op of another dialect.
// CHECK-LABEL: func.func @kept_too
// CHECK-NOT:     padc.split
// CHECK-NOT:     d1 *
func.func private @declared(tensor<48x20xf32>)
func.func @kept_too(%x: tensor<24x20xf32>, %x3: tensor<24x1x20xf32>, %w: tensor<48x20xf32> {padc.weight = "w"}, %u: tensor<24x48xf32> {padc.weight = "u"}, %y: tensor<24x48xf32>, %y1: tensor<24x1xf32>, %y3: tensor<24x1x48xf32>) -> (tensor<24x48xf32>, tensor<24x48xf32>, tensor<24x1x48xf32>, tensor<24x1xf32>, tensor<24x48xf32>, tensor<24x48xf32>, tensor<24x48xf32>) {
  %e = tensor.empty() : tensor<24x48xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w, %y : tensor<24x20xf32>, tensor<48x20xf32>, tensor<24x48xf32>) outs(%e : tensor<24x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x48xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%y, %u : tensor<24x48xf32>, tensor<24x48xf32>) outs(%y : tensor<24x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x48xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, 0, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, 0, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x3, %w : tensor<24x1x20xf32>, tensor<48x20xf32>) outs(%y3 : tensor<24x1x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x1x48xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (0, k)>, affine_map<(m, k) -> (m, 0)>], iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<24x20xf32>, tensor<48x20xf32>) outs(%y1 : tensor<24x1xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x1xf32>
  %4 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<24x20xf32>, tensor<48x20xf32>) outs(%y : tensor<24x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.divf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x48xf32>
  %5, %6 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<24x20xf32>, tensor<48x20xf32>) outs(%y, %y : tensor<24x48xf32>, tensor<24x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s, %d : f32, f32
  } -> (tensor<24x48xf32>, tensor<24x48xf32>)
  return %0, %1, %2, %3, %4, %5, %6 : tensor<24x48xf32>, tensor<24x48xf32>, tensor<24x1x48xf32>, tensor<24x1xf32>, tensor<24x48xf32>, tensor<24x48xf32>, tensor<24x48xf32>
}

// A weight that is turned; an input that is turned; no loop that reduces.
// CHECK-LABEL: func.func @kept_of_other_maps
// CHECK-NOT:     padc.split
// CHECK-NOT:     d1 *
// CHECK:         builtin.module @other
func.func @kept_of_other_maps(%x: tensor<24x24xf32>, %turned: tensor<32x24xf32>, %u: tensor<24x48xf32> {padc.weight = "u"}, %w: tensor<48x32xf32> {padc.weight = "w"}, %v: tensor<24x24xf32> {padc.weight = "v"}, %y: tensor<24x48xf32>, %row: tensor<24xf32>) -> (tensor<24x48xf32>, tensor<24x48xf32>, tensor<24xf32>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %u : tensor<24x24xf32>, tensor<24x48xf32>) outs(%y : tensor<24x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x48xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%turned, %w : tensor<32x24xf32>, tensor<48x32xf32>) outs(%y : tensor<24x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<24x48xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "parallel"]} ins(%x, %v : tensor<24x24xf32>, tensor<24x24xf32>) outs(%row : tensor<24xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<24xf32>
  return %0, %1, %2 : tensor<24x48xf32>, tensor<24x48xf32>, tensor<24xf32>
}
builtin.module @other {
}
