// RUN: padc-opt -p plan-buffers,canonicalize,cse %s | filecheck %s

// The live ranges of the first and the last buffer are disjoint: they share memory.
// CHECK-LABEL: func.func @chain
// CHECK-SAME:    %x: memref<16xf32>, %[[OUT:.*]]: memref<16xf32>, %arena: memref<?xi8>
// CHECK-SAME:    padc.live_bytes = 128 : i64
// CHECK-SAME:    padc.arena_bytes = 128 : i64
// CHECK:         %[[A:.*]] = memref.view %arena
// CHECK:         %[[B:.*]] = memref.view %arena
// CHECK-NEXT:    linalg.copy ins(%x : {{.*}}) outs(%[[A]]
// CHECK-NEXT:    linalg.copy ins(%[[A]] : {{.*}}) outs(%[[B]]
// CHECK-NEXT:    linalg.copy ins(%[[B]] : {{.*}}) outs(%[[A]]
// CHECK-NEXT:    linalg.copy ins(%[[A]] : {{.*}}) outs(%[[OUT]]
// CHECK-NEXT:    return
// CHECK-LABEL: func.func @chain_sizes
func.func @chain(%x: memref<16xf32>) -> memref<16xf32> {
  %a = memref.alloc() : memref<16xf32>
  linalg.copy ins(%x : memref<16xf32>) outs(%a : memref<16xf32>)
  %b = memref.alloc() : memref<16xf32>
  linalg.copy ins(%a : memref<16xf32>) outs(%b : memref<16xf32>)
  memref.dealloc %a : memref<16xf32>
  %c = memref.alloc() : memref<16xf32>
  linalg.copy ins(%b : memref<16xf32>) outs(%c : memref<16xf32>)
  memref.dealloc %b : memref<16xf32>
  %d = memref.alloc() : memref<16xf32>
  linalg.copy ins(%c : memref<16xf32>) outs(%d : memref<16xf32>)
  memref.dealloc %c : memref<16xf32>
  return %d : memref<16xf32>
}

// Dynamic sizes are computed from the arguments, before anything else.
// CHECK-LABEL: func.func @dynamic
// CHECK-NOT:     padc.arena_bytes
// CHECK:         %[[N:.*]] = memref.dim %x
// CHECK:         memref.view %arena[%{{.*}}][%[[N]]] : memref<?xi8> to memref<?xf32>
// CHECK-LABEL: func.func @dynamic_sizes
// CHECK-SAME:    %[[X:.*]]: memref<?xf32>, %[[TABLE:.*]]: memref<?xi64>
// CHECK:         memref.dim %[[X]]
// CHECK:         memref.store %{{.*}}, %[[TABLE]]
// CHECK:         memref.store %{{.*}}, %[[TABLE]]
// CHECK-NOT:     memref.store
func.func @dynamic(%x: memref<?xf32>) -> memref<?xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = memref.dim %x, %zero : memref<?xf32>
  %a = memref.alloc(%n) : memref<?xf32>
  linalg.copy ins(%x : memref<?xf32>) outs(%a : memref<?xf32>)
  %b = memref.alloc(%n) : memref<?xf32>
  linalg.copy ins(%a : memref<?xf32>) outs(%b : memref<?xf32>)
  return %b : memref<?xf32>
}
