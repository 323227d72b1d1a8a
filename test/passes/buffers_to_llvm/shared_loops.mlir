// RUN: padc-opt -p convert-buffers-to-llvm %s | filecheck %s

// Row by row, one loop writes both halves, whose pointers are to the same memory.
// CHECK:       llvm.func internal @kernel_0(%{{[^:]*}}: !llvm.ptr {llvm.noalias}, %{{[^:]*}}: !llvm.ptr, %{{[^:]*}}: f32, %{{[^:]*}}: !llvm.ptr)
// CHECK-LABEL: llvm.func @halves
// CHECK:         llvm.call @kernel_0
// CHECK-NEXT:    llvm.return
func.func @halves(%x: memref<4x6xf32>, %y: memref<4x12xf32>) {
  %z = arith.constant 1.0 : f32
  %a = memref.subview %y[0, 0] [4, 6] [1, 1] : memref<4x12xf32> to memref<4x6xf32, strided<[12, 1]>>
  %b = memref.subview %y[0, 6] [4, 6] [1, 1] : memref<4x12xf32> to memref<4x6xf32, strided<[12, 1], offset: 6>>
  linalg.copy ins(%x : memref<4x6xf32>) outs(%a : memref<4x6xf32, strided<[12, 1]>>)
  linalg.fill ins(%z : f32) outs(%b : memref<4x6xf32, strided<[12, 1], offset: 6>>)
  func.return
}

// Here there is one pointer to what is written, and no other pointer is to it.
// CHECK:       llvm.func internal @kernel_1(%{{[^:]*}}: !llvm.ptr {llvm.noalias}, %{{[^:]*}}: !llvm.ptr {llvm.noalias})
// CHECK-LABEL: llvm.func @whole
// CHECK:         llvm.call @kernel_1
// CHECK-NEXT:    llvm.return
func.func @whole(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  linalg.copy ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%y : memref<4x6xf32>) {
  ^bb0(%o: f32):
    %n = arith.negf %o : f32
    linalg.yield %n : f32
  }
  func.return
}

// Halves of other numbers of rows have loops of their own.
// CHECK-LABEL: llvm.func @fewer_rows
// CHECK:         llvm.call
// CHECK-NEXT:    llvm.call
// CHECK-NEXT:    llvm.return
func.func @fewer_rows(%x: memref<4x6xf32>, %y: memref<4x12xf32>) {
  %z = arith.constant 1.0 : f32
  %a = memref.subview %y[0, 0] [4, 6] [1, 1] : memref<4x12xf32> to memref<4x6xf32, strided<[12, 1]>>
  %b = memref.subview %y[0, 6] [3, 6] [1, 1] : memref<4x12xf32> to memref<3x6xf32, strided<[12, 1], offset: 6>>
  linalg.copy ins(%x : memref<4x6xf32>) outs(%a : memref<4x6xf32, strided<[12, 1]>>)
  linalg.fill ins(%z : f32) outs(%b : memref<3x6xf32, strided<[12, 1], offset: 6>>)
  func.return
}

// So has an op that depends on its place,
// CHECK-LABEL: llvm.func @places
// CHECK:         llvm.call
// CHECK-NEXT:    llvm.call
// CHECK-NEXT:    llvm.return
func.func @places(%x: memref<4x6xf32>, %y: memref<4x12xf32>) {
  %a = memref.subview %y[0, 0] [4, 6] [1, 1] : memref<4x12xf32> to memref<4x6xf32, strided<[12, 1]>>
  %b = memref.subview %y[0, 6] [4, 6] [1, 1] : memref<4x12xf32> to memref<4x6xf32, strided<[12, 1], offset: 6>>
  linalg.copy ins(%x : memref<4x6xf32>) outs(%a : memref<4x6xf32, strided<[12, 1]>>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%b : memref<4x6xf32, strided<[12, 1], offset: 6>>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %k = arith.index_cast %i : index to i64
    %v = arith.sitofp %k : i64 to f32
    linalg.yield %v : f32
  }
  func.return
}

// one that reads the other part in another order,
// CHECK-LABEL: llvm.func @turned
// CHECK:         llvm.call
// CHECK-NEXT:    llvm.call
// CHECK-NEXT:    llvm.return
func.func @turned(%x: memref<4x4xf32>, %y: memref<4x8xf32>) {
  %a = memref.subview %y[0, 0] [4, 4] [1, 1] : memref<4x8xf32> to memref<4x4xf32, strided<[8, 1]>>
  %b = memref.subview %y[0, 4] [4, 4] [1, 1] : memref<4x8xf32> to memref<4x4xf32, strided<[8, 1], offset: 4>>
  linalg.copy ins(%x : memref<4x4xf32>) outs(%a : memref<4x4xf32, strided<[8, 1]>>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a : memref<4x4xf32, strided<[8, 1]>>) outs(%b : memref<4x4xf32, strided<[8, 1], offset: 4>>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  }
  func.return
}

// one that reads through another shape of the buffer,
// CHECK-LABEL: llvm.func @reshaped
// CHECK:         llvm.call
// CHECK-NEXT:    llvm.call
// CHECK-NEXT:    llvm.return
func.func @reshaped(%x: memref<4x6xf32>, %y: memref<4x12xf32>) {
  %a = memref.subview %y[0, 0] [4, 6] [1, 1] : memref<4x12xf32> to memref<4x6xf32, strided<[12, 1]>>
  %b = memref.subview %y[0, 6] [4, 6] [1, 1] : memref<4x12xf32> to memref<4x6xf32, strided<[12, 1], offset: 6>>
  %flat = memref.collapse_shape %y [[0, 1]] : memref<4x12xf32> into memref<48xf32>
  %deep = memref.expand_shape %flat [[0, 1]] output_shape [8, 6] : memref<48xf32> into memref<8x6xf32>
  %c = memref.subview %deep[0, 0] [4, 6] [1, 1] : memref<8x6xf32> to memref<4x6xf32, strided<[6, 1]>>
  linalg.copy ins(%x : memref<4x6xf32>) outs(%a : memref<4x6xf32, strided<[12, 1]>>)
  linalg.copy ins(%c : memref<4x6xf32, strided<[6, 1]>>) outs(%b : memref<4x6xf32, strided<[12, 1], offset: 6>>)
  func.return
}

// and one whose loops are faster in another order.
// CHECK-LABEL: llvm.func @columns
// CHECK:         llvm.call
// CHECK-NEXT:    llvm.call
// CHECK-NEXT:    llvm.return
func.func @columns(%x: memref<4x16xf32>, %y: memref<16x8xf32>) {
  %z = arith.constant 1.0 : f32
  %a = memref.subview %y[0, 0] [16, 4] [1, 1] : memref<16x8xf32> to memref<16x4xf32, strided<[8, 1]>>
  %b = memref.subview %y[0, 4] [16, 4] [1, 1] : memref<16x8xf32> to memref<16x4xf32, strided<[8, 1], offset: 4>>
  linalg.fill ins(%z : f32) outs(%a : memref<16x4xf32, strided<[8, 1]>>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<4x16xf32>) outs(%b : memref<16x4xf32, strided<[8, 1], offset: 4>>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  }
  func.return
}

// The rows of %y follow each other, those of the part of %z do not: two kernels.
// CHECK:       llvm.func internal @kernel_9_part
// CHECK:       llvm.func internal @kernel_10_part
// CHECK:       llvm.func internal @dynamic_rows_body
func.func @dynamic_rows(%y: memref<3x5x?x?xf32>, %z: memref<3x5x?x?xf32>, %w: memref<?xf32>) {
  %zero = arith.constant 0 : index
  %second = arith.constant 2 : index
  %third = arith.constant 3 : index
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %m = memref.dim %y, %second : memref<3x5x?x?xf32>
  %p = memref.dim %y, %third : memref<3x5x?x?xf32>
  %n = memref.dim %w, %zero : memref<?xf32>
  %q = memref.dim %z, %third : memref<3x5x?x?xf32>
  %a = memref.subview %y[0, 0, 0, 0] [3, 2, %m, %p] [1, 1, 1, 1] : memref<3x5x?x?xf32> to memref<3x2x?x?xf32, strided<[?, ?, ?, 1]>>
  %b = memref.subview %y[0, 2, 0, 0] [3, 3, %m, %p] [1, 1, 1, 1] : memref<3x5x?x?xf32> to memref<3x3x?x?xf32, strided<[?, ?, ?, 1], offset: ?>>
  %c = memref.subview %z[0, 0, 0, 0] [3, 2, %n, %q] [1, 1, 1, 1] : memref<3x5x?x?xf32> to memref<3x2x?x?xf32, strided<[?, ?, ?, 1]>>
  %d = memref.subview %z[0, 2, 0, 0] [3, 3, %n, %q] [1, 1, 1, 1] : memref<3x5x?x?xf32> to memref<3x3x?x?xf32, strided<[?, ?, ?, 1], offset: ?>>
  linalg.fill ins(%one : f32) outs(%a : memref<3x2x?x?xf32, strided<[?, ?, ?, 1]>>)
  linalg.fill ins(%two : f32) outs(%b : memref<3x3x?x?xf32, strided<[?, ?, ?, 1], offset: ?>>)
  linalg.fill ins(%one : f32) outs(%c : memref<3x2x?x?xf32, strided<[?, ?, ?, 1]>>)
  linalg.fill ins(%two : f32) outs(%d : memref<3x3x?x?xf32, strided<[?, ?, ?, 1], offset: ?>>)
  func.return
}

// Each row is reduced while it is in the first cache, and only one kernel uses %t: one
// row of it is enough, in memory of the kernel.
// CHECK:       llvm.func internal @kernel_11(%{{[^:]*}}: !llvm.ptr {llvm.noalias}, %{{[^:]*}}: f32, %{{[^:]*}}: !llvm.ptr {llvm.noalias})
// CHECK:         llvm.alloca
// CHECK-LABEL: llvm.func @rows
// CHECK:         llvm.call @kernel_11
// CHECK-NEXT:    llvm.return
func.func @rows(%x: memref<20x40xf32>, %y: memref<20x1xf32>, %arena: memref<?xi8>) {
  %zero = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %t = memref.view %arena[%zero][] : memref<?xi8> to memref<20x40xf32>
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<20x40xf32>) outs(%t : memref<20x40xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.negf %v : f32
    linalg.yield %n : f32
  }
  linalg.fill ins(%z : f32) outs(%y : memref<20x1xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%t : memref<20x40xf32>) outs(%y : memref<20x1xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.addf %o, %v : f32
    linalg.yield %n : f32
  }
  func.return
}

// The place of %t in the arena is that of %u afterwards: rows of %t would be lost.
// CHECK-LABEL: llvm.func @reused
// CHECK-COUNT-2: llvm.call
// CHECK-NEXT:    llvm.return
func.func @reused(%x: memref<20x40xf32>, %y: memref<20x40xf32>, %arena: memref<?xi8>) {
  %zero = arith.constant 0 : index
  %t = memref.view %arena[%zero][] : memref<?xi8> to memref<20x40xf32>
  %u = memref.view %arena[%zero][] : memref<?xi8> to memref<20x40xf32>
  linalg.copy ins(%x : memref<20x40xf32>) outs(%t : memref<20x40xf32>)
  linalg.copy ins(%t : memref<20x40xf32>) outs(%y : memref<20x40xf32>)
  linalg.copy ins(%y : memref<20x40xf32>) outs(%u : memref<20x40xf32>)
  linalg.copy ins(%u : memref<20x40xf32>) outs(%y : memref<20x40xf32>)
  func.return
}

// Columns are reduced row by row, which share no loop with what follows.
// CHECK-LABEL: llvm.func @sums_of_columns
// CHECK-COUNT-2: llvm.call
// CHECK-NEXT:    llvm.return
func.func @sums_of_columns(%x: memref<20x40xf32>, %y: memref<1x40xf32>, %z: memref<20x40xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (0, j)>], iterator_types = ["reduction", "parallel"]} ins(%x : memref<20x40xf32>) outs(%y : memref<1x40xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.addf %o, %v : f32
    linalg.yield %n : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (0, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%y : memref<1x40xf32>) outs(%z : memref<20x40xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  }
  func.return
}

// Rows of few elements are faster in one loop through all of them.
// CHECK-LABEL: llvm.func @short_rows
// CHECK-COUNT-2: llvm.call
// CHECK-NEXT:    llvm.return
func.func @short_rows(%x: memref<20x4xf32>, %y: memref<20x4xf32>, %z: memref<20x4xf32>) {
  linalg.copy ins(%x : memref<20x4xf32>) outs(%y : memref<20x4xf32>)
  linalg.copy ins(%y : memref<20x4xf32>) outs(%z : memref<20x4xf32>)
  func.return
}

// A row of a pad and its borders are stored as one vector, from elements of the input.
// So are copies of rows: the first one is the second row, at offset 6 of the input, the
// last one the third row.
// CHECK:       llvm.func internal @kernel_17(
// CHECK:         %[[A:.*]] = llvm.load {{.*}} -> vector<4xf32>
// CHECK:         %[[B:.*]] = llvm.load {{.*}} -> vector<4xf32>
// CHECK-NEXT:    %[[ROW:.*]] = llvm.shufflevector %[[A]], %[[B]] [0, 0, 1, 2, 3, 6, 7, 7]
// CHECK-NEXT:    llvm.store %[[ROW]]
// CHECK:         llvm.mlir.constant(6) : i64
// CHECK:         %[[COPY:.*]] = llvm.shufflevector {{.*}} [0, 0, 1, 2, 3, 6, 7, 7]
// CHECK-NEXT:    llvm.store %[[COPY]]
// CHECK:         llvm.mlir.constant(12) : i64
// CHECK:         %[[LAST:.*]] = llvm.shufflevector {{.*}} [0, 0, 1, 2, 3, 6, 7, 7]
// CHECK-NEXT:    llvm.store %[[LAST]]
// CHECK-NOT:     llvm.store
// CHECK-LABEL: llvm.func @padded_rows
func.func @padded_rows(%x: memref<2x5x6xf32>, %y: memref<2x7x8xf32>) {
  %inside = memref.subview %y[0, 1, 1] [2, 5, 6] [1, 1, 1] : memref<2x7x8xf32> to memref<2x5x6xf32, strided<[56, 8, 1], offset: 9>>
  %second = memref.subview %y[0, 1, 1] [2, 5, 1] [1, 1, 1] : memref<2x7x8xf32> to memref<2x5x1xf32, strided<[56, 8, 1], offset: 9>>
  %first = memref.subview %y[0, 1, 0] [2, 5, 1] [1, 1, 1] : memref<2x7x8xf32> to memref<2x5x1xf32, strided<[56, 8, 1], offset: 8>>
  %one = memref.subview %y[0, 1, 6] [2, 5, 1] [1, 1, 1] : memref<2x7x8xf32> to memref<2x5x1xf32, strided<[56, 8, 1], offset: 14>>
  %last = memref.subview %y[0, 1, 7] [2, 5, 1] [1, 1, 1] : memref<2x7x8xf32> to memref<2x5x1xf32, strided<[56, 8, 1], offset: 15>>
  %below = memref.subview %y[0, 2, 0] [2, 1, 8] [1, 1, 1] : memref<2x7x8xf32> to memref<2x1x8xf32, strided<[56, 8, 1], offset: 16>>
  %above = memref.subview %y[0, 3, 0] [2, 1, 8] [1, 1, 1] : memref<2x7x8xf32> to memref<2x1x8xf32, strided<[56, 8, 1], offset: 24>>
  %bottom = memref.subview %y[0, 6, 0] [2, 1, 8] [1, 1, 1] : memref<2x7x8xf32> to memref<2x1x8xf32, strided<[56, 8, 1], offset: 48>>
  %top = memref.subview %y[0, 0, 0] [2, 1, 8] [1, 1, 1] : memref<2x7x8xf32> to memref<2x1x8xf32, strided<[56, 8, 1]>>
  linalg.copy ins(%x : memref<2x5x6xf32>) outs(%inside : memref<2x5x6xf32, strided<[56, 8, 1], offset: 9>>)
  linalg.copy ins(%second : memref<2x5x1xf32, strided<[56, 8, 1], offset: 9>>) outs(%first : memref<2x5x1xf32, strided<[56, 8, 1], offset: 8>>)
  linalg.copy ins(%one : memref<2x5x1xf32, strided<[56, 8, 1], offset: 14>>) outs(%last : memref<2x5x1xf32, strided<[56, 8, 1], offset: 15>>)
  linalg.copy ins(%below : memref<2x1x8xf32, strided<[56, 8, 1], offset: 16>>) outs(%top : memref<2x1x8xf32, strided<[56, 8, 1]>>)
  linalg.copy ins(%above : memref<2x1x8xf32, strided<[56, 8, 1], offset: 24>>) outs(%bottom : memref<2x1x8xf32, strided<[56, 8, 1], offset: 48>>)
  func.return
}

// The sum reads the last element of a row, so all of the row is stored before.
// CHECK:         llvm.fneg
// CHECK-NEXT:    llvm.getelementptr
// CHECK-NEXT:    llvm.store
// CHECK-NEXT:    llvm.add
// CHECK-NEXT:    llvm.br
// CHECK:         llvm.fsub
// CHECK-LABEL: llvm.func @later_elements
func.func @later_elements(%x: memref<64x100xf32>, %y: memref<64x100xf32>, %s: memref<64x1xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<64x100xf32>) outs(%y : memref<64x100xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  }
  %l = memref.subview %y[0, 99] [64, 1] [1, 1] : memref<64x100xf32> to memref<64x1xf32, strided<[100, 1], offset: 99>>
  linalg.fill ins(%z : f32) outs(%s : memref<64x1xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%y, %l : memref<64x100xf32>, memref<64x1xf32, strided<[100, 1], offset: 99>>) outs(%s : memref<64x1xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %t = arith.addf %o, %d : f32
    linalg.yield %t : f32
  }
  func.return
}
