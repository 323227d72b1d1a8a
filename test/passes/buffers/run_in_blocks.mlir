// RUN: padc-opt -p "run-in-blocks{block-bytes=4096},canonicalize,cse" %s | filecheck %s

#row = affine_map<(m, n, k) -> (m, k)>
#backwards = affine_map<(m, n, k) -> (99 - m, k)>
#column = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>
#here = affine_map<(m, n) -> (m, n)>

// The sums between the products have 17 of their 100 rows; the last block has 15.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %[[Y:.*]] = memref.alloc() : memref<100x4xf32>
// CHECK-NEXT:    %[[P:.*]] = memref.alloc() : memref<17x500xf32>
// CHECK:         scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:      %[[AT:.*]] = arith.muli %[[I]], %{{.*}} : index
// CHECK-NEXT:      linalg.fill ins(%z : f32) outs(%[[P]] :
// CHECK-NEXT:      %[[X:.*]] = memref.subview %x[%[[AT]], 0] [17, 8]
// CHECK-NEXT:      linalg.generic {{.*}} ins(%[[X]], %k : {{.*}} outs(%[[P]] :
// CHECK:           linalg.generic {{.*}} outs(%[[P]] :
// CHECK:             %[[ROW:.*]] = linalg.index 0
// CHECK-NEXT:        arith.addi %[[ROW]], %[[AT]]
// CHECK:           %[[PART:.*]] = memref.subview %[[Y]][%[[AT]], 0] [17, 4]
// CHECK:           linalg.generic {{.*}} ins(%[[P]], %v : {{.*}} outs(%[[PART]] :
// CHECK:         }
// CHECK:         memref.subview %[[P]][0, 0] [15, 500]
// CHECK:         memref.subview %x[85, 0] [15, 8]
// CHECK:         memref.subview %[[Y]][85, 0] [15, 4]
// CHECK:         return %[[Y]]
func.func @chain(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32) -> memref<100x4xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<100x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#here], iterator_types = ["parallel", "parallel"]} outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi sle, %j, %i : index
    %b = arith.select %c, %a, %z : f32
    linalg.yield %b : f32
  }
  %y = memref.alloc() : memref<100x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<100x4xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<100x500xf32>
  return %y : memref<100x4xf32>
}

// A row of the second product needs all rows of the first one.
// CHECK-LABEL: func.func @columns
// CHECK-NOT:     scf.for
func.func @columns(%x: memref<100x8xf32>, %k: memref<8x100xf32>, %z: f32) -> memref<100x100xf32> {
  %p = memref.alloc() : memref<100x100xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<100x100xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x100xf32>) outs(%p : memref<100x100xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %y = memref.alloc() : memref<100x100xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<100x100xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %p : memref<100x100xf32>, memref<100x100xf32>) outs(%y : memref<100x100xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<100x100xf32>
  return %y : memref<100x100xf32>
}

// The first product reads the rows in another order.
// CHECK-LABEL: func.func @backwards
// CHECK-NOT:     scf.for
func.func @backwards(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32) -> memref<100x4xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<100x500xf32>)
  linalg.generic {indexing_maps = [#backwards, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %y = memref.alloc() : memref<100x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<100x4xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<100x500xf32>
  return %y : memref<100x4xf32>
}

// The outermost loop of both products adds up.
// CHECK-LABEL: func.func @sums_first
// CHECK-NOT:     scf.for
func.func @sums_first(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<8x500xf32>) -> memref<100x500xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  linalg.generic {indexing_maps = [affine_map<(k, m, n) -> (m, k)>, affine_map<(k, m, n) -> (k, n)>, affine_map<(k, m, n) -> (m, n)>], iterator_types = ["reduction", "parallel", "parallel"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %y = memref.alloc() : memref<100x500xf32>
  linalg.generic {indexing_maps = [affine_map<(k, m, n) -> (m, n)>, affine_map<(k, m, n) -> (k, n)>, affine_map<(k, m, n) -> (m, n)>], iterator_types = ["reduction", "parallel", "parallel"]} ins(%p, %v : memref<100x500xf32>, memref<8x500xf32>) outs(%y : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<100x500xf32>
  return %y : memref<100x500xf32>
}

// The sums between the products are used as a view.
// CHECK-LABEL: func.func @views
// CHECK:         memref.alloc() : memref<50000xf32>
func.func @views(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32) -> memref<100x4xf32> {
  %q = memref.alloc() : memref<50000xf32>
  %p = memref.expand_shape %q [[0, 1]] output_shape [100, 500] : memref<50000xf32> into memref<100x500xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<100x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %y = memref.alloc() : memref<100x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<100x4xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  return %y : memref<100x4xf32>
}

// A row of the second product needs a column of the first one.
// CHECK-LABEL: func.func @transposed
// CHECK-NOT:     scf.for
func.func @transposed(%x: memref<100x8xf32>, %k: memref<8x100xf32>, %v: memref<100x4xf32>, %z: f32) -> memref<100x4xf32> {
  %p = memref.alloc() : memref<100x100xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<100x100xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x100xf32>) outs(%p : memref<100x100xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %y = memref.alloc() : memref<100x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<100x4xf32>)
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (k, m)>, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x100xf32>, memref<100x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<100x100xf32>
  return %y : memref<100x4xf32>
}

// An op between them may have another number of rows.
// CHECK-LABEL: func.func @other_rows
// CHECK-NOT:     scf.for
func.func @other_rows(%x: memref<?x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %q: memref<?x500xf32>, %z: f32, %m: index) -> memref<?x4xf32> {
  %p = memref.alloc(%m) : memref<?x500xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<?x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<?x8xf32>, memref<8x500xf32>) outs(%p : memref<?x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#here], iterator_types = ["parallel", "parallel"]} outs(%q : memref<?x500xf32>) {
  ^bb0(%a: f32):
    %b = arith.negf %a : f32
    linalg.yield %b : f32
  }
  %y = memref.alloc(%m) : memref<?x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<?x4xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<?x500xf32>, memref<500x4xf32>) outs(%y : memref<?x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<?x500xf32>
  return %y : memref<?x4xf32>
}

// Ops on a number of each row have one loop, which they share.
// CHECK-LABEL: func.func @numbers_of_rows
// CHECK:         %[[R:.*]] = memref.alloc() : memref<17xf32>
// CHECK:         scf.for
// CHECK:           linalg.generic {{.*}} iterator_types = ["parallel"]} outs(%[[R]] : memref<17xf32>)
// CHECK:         return
func.func @numbers_of_rows(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32) -> memref<100x4xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<100x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %r = memref.alloc() : memref<100xf32>
  linalg.fill ins(%z : f32) outs(%r : memref<100xf32>)
  linalg.generic {indexing_maps = [#here, affine_map<(m, n) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%p : memref<100x500xf32>) outs(%r : memref<100xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  }
  linalg.generic {indexing_maps = [affine_map<(m) -> (m)>], iterator_types = ["parallel"]} outs(%r : memref<100xf32>) {
  ^bb0(%a: f32):
    %b = math.exp %a : f32
    linalg.yield %b : f32
  }
  linalg.generic {indexing_maps = [affine_map<(m, n) -> (m)>, #here], iterator_types = ["parallel", "parallel"]} ins(%r : memref<100xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.divf %b, %a : f32
    linalg.yield %c : f32
  }
  %y = memref.alloc() : memref<100x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<100x4xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %r : memref<100xf32>
  memref.dealloc %p : memref<100x500xf32>
  return %y : memref<100x4xf32>
}

// An op between them writes two buffers.
// CHECK-LABEL: func.func @two_results
// CHECK-NOT:     scf.for
func.func @two_results(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32, %w: memref<100x500xf32>) -> memref<100x4xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<100x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#here, #here], iterator_types = ["parallel", "parallel"]} outs(%p, %w : memref<100x500xf32>, memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.negf %a : f32
    linalg.yield %c, %a : f32, f32
  }
  %y = memref.alloc() : memref<100x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<100x4xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<100x500xf32>
  return %y : memref<100x4xf32>
}

// An op between them reads elements at places that it computes.
// CHECK-LABEL: func.func @loads
// CHECK-NOT:     scf.for
func.func @loads(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32) -> memref<100x4xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<100x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#here], iterator_types = ["parallel", "parallel"]} outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32):
    %i = linalg.index 1 : index
    %j = arith.constant 99 : index
    %b = memref.load %p[%j, %i] : memref<100x500xf32>
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  }
  %y = memref.alloc() : memref<100x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<100x4xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<100x500xf32>
  return %y : memref<100x4xf32>
}

// So does one after them.
// CHECK-LABEL: func.func @loads_after
// CHECK:         scf.for
// CHECK:         linalg.generic {{.*}} outs(%t :
func.func @loads_after(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32, %t: memref<100x4xf32>) -> memref<100x4xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<100x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %y = memref.alloc() : memref<100x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<100x4xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#here, #here], iterator_types = ["parallel", "parallel"]} ins(%y : memref<100x4xf32>) outs(%t : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %i = linalg.index 1 : index
    %j = arith.constant 99 : index
    %d = memref.load %y[%j, %i] : memref<100x4xf32>
    %c = arith.addf %a, %d : f32
    linalg.yield %c : f32
  }
  memref.dealloc %p : memref<100x500xf32>
  return %y : memref<100x4xf32>
}

// Between them, the sums are copied as a whole.
// CHECK-LABEL: func.func @copied
// CHECK-NOT:     scf.for
func.func @copied(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32, %w: memref<100x500xf32>) -> memref<100x4xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<100x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  "memref.copy"(%p, %w) : (memref<100x500xf32>, memref<100x500xf32>) -> ()
  %y = memref.alloc() : memref<100x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<100x4xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<100x500xf32>
  return %y : memref<100x4xf32>
}

// Of three products, the first two are in blocks.
// CHECK-LABEL: func.func @three
// CHECK:         scf.for
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %u : {{.*}} outs(%t :
// CHECK-NOT:     scf.for
func.func @three(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32, %u: memref<4x500xf32>) -> memref<100x500xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<100x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %y = memref.alloc() : memref<100x4xf32>
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %t = memref.alloc() : memref<100x500xf32>
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%y, %u : memref<100x4xf32>, memref<4x500xf32>) outs(%t : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<100x500xf32>
  memref.dealloc %y : memref<100x4xf32>
  return %t : memref<100x500xf32>
}

// The sums of the second product are those that a third one starts from.
// CHECK-LABEL: func.func @sums_of_two
// CHECK:         scf.for
func.func @sums_of_two(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32, %o: memref<8x4xf32>, %u: memref<4x500xf32>) -> memref<100x500xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<100x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %y = memref.alloc() : memref<100x4xf32>
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %o : memref<100x8xf32>, memref<8x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %t = memref.alloc() : memref<100x500xf32>
  linalg.fill ins(%z : f32) outs(%t : memref<100x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%y, %u : memref<100x4xf32>, memref<4x500xf32>) outs(%t : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<100x500xf32>
  memref.dealloc %y : memref<100x4xf32>
  return %t : memref<100x500xf32>
}

// Before them, something is copied, and another buffer is filled.
// CHECK-LABEL: func.func @after_other_ops
// CHECK:         scf.for
func.func @after_other_ops(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32, %w: memref<100x500xf32>, %q: memref<100x500xf32>) -> memref<100x4xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  "memref.copy"(%w, %q) : (memref<100x500xf32>, memref<100x500xf32>) -> ()
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %y = memref.alloc() : memref<100x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<100x4xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<100x500xf32>
  return %y : memref<100x4xf32>
}

// The op before them fills another buffer, of other rows.
// CHECK-LABEL: func.func @after_another_fill
// CHECK:         scf.for
func.func @after_another_fill(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32, %w: memref<?x500xf32>) -> memref<100x4xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  linalg.fill ins(%z : f32) outs(%w : memref<?x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %y = memref.alloc() : memref<100x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<100x4xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<100x500xf32>
  return %y : memref<100x4xf32>
}

// An op after them needs all rows.
// CHECK-LABEL: func.func @sums_of_columns
// CHECK:         scf.for
// CHECK:         linalg.generic {{.*}} outs(%w :
// CHECK-NOT:     scf.for
func.func @sums_of_columns(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32, %w: memref<4xf32>) -> memref<100x4xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<100x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %y = memref.alloc() : memref<100x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<100x4xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#here, affine_map<(m, n) -> (n)>], iterator_types = ["reduction", "parallel"]} ins(%y : memref<100x4xf32>) outs(%w : memref<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  }
  memref.dealloc %p : memref<100x500xf32>
  return %y : memref<100x4xf32>
}

// Two blocks of 17 rows leave none.
// CHECK-LABEL: func.func @whole_blocks
// CHECK:         scf.for
// CHECK:         memref.subview %x[%{{.*}}, 0] [17, 8]
// CHECK-NOT:     memref.subview %x
func.func @whole_blocks(%x: memref<34x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %z: f32) -> memref<34x4xf32> {
  %p = memref.alloc() : memref<34x500xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<34x500xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<34x8xf32>, memref<8x500xf32>) outs(%p : memref<34x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  %y = memref.alloc() : memref<34x4xf32>
  linalg.fill ins(%z : f32) outs(%y : memref<34x4xf32>)
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<34x500xf32>, memref<500x4xf32>) outs(%y : memref<34x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  memref.dealloc %p : memref<34x500xf32>
  return %y : memref<34x4xf32>
}

// The first product is a result, too: all of it is needed.
// CHECK-LABEL: func.func @returned
// CHECK-NOT:     scf.for
func.func @returned(%x: memref<100x8xf32>, %k: memref<8x500xf32>, %v: memref<500x4xf32>, %y: memref<100x4xf32>) -> memref<100x500xf32> {
  %p = memref.alloc() : memref<100x500xf32>
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : memref<100x8xf32>, memref<8x500xf32>) outs(%p : memref<100x500xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#row, #column, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : memref<100x500xf32>, memref<500x4xf32>) outs(%y : memref<100x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %d, %c : f32
    linalg.yield %e : f32
  }
  return %p : memref<100x500xf32>
}
