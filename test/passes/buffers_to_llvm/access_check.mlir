// RUN: padc-opt -p 'convert-buffers-to-llvm{check=true}' %s | filecheck %s
// RUN: padc-opt -p 'convert-buffers-to-llvm{check=true}' %s | padc-opt | filecheck %s

// The address of the status word comes first in the table, after its head. A load or store
// that does not fit goes to the memory after it.
// CHECK:       builtin.module attributes {padc.accesses = [loc("memref.load"(unknown)), loc("memref.store"(unknown))]}
// CHECK-LABEL: llvm.func @copied
// CHECK:         %[[STATUS:.*]] = llvm.load %{{.*}} : !llvm.ptr -> !llvm.ptr
// CHECK:         %[[PLACE:.*]] = llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK:         %[[AFTER:.*]] = llvm.icmp "uge"
// CHECK-NEXT:    %[[BEFORE:.*]] = llvm.icmp "ule"
// CHECK-NEXT:    %[[FITS:.*]] = llvm.and %[[AFTER]], %[[BEFORE]] : i1
// CHECK-NEXT:    %[[KNOWN:.*]] = llvm.load %[[STATUS]] : !llvm.ptr -> i64
// CHECK:         %[[NEW:.*]] = llvm.select %{{.*}}, %{{.*}}, %[[KNOWN]] : i1, i64
// CHECK:         %[[SCRATCH:.*]] = llvm.getelementptr %[[STATUS]][%{{.*}}] : (!llvm.ptr, i64) -> !llvm.ptr, i64
// CHECK-NEXT:    %[[TO:.*]] = llvm.select %[[FITS]], %[[SCRATCH]], %[[STATUS]] : i1, !llvm.ptr
// CHECK-NEXT:    llvm.store %[[NEW]], %[[TO]] : i64, !llvm.ptr
// CHECK-NEXT:    %[[ADDRESS:.*]] = llvm.select %[[FITS]], %[[PLACE]], %[[SCRATCH]] : i1, !llvm.ptr
// CHECK-NEXT:    llvm.load %[[ADDRESS]] : !llvm.ptr -> f32
// CHECK:         llvm.icmp "uge"
// CHECK:         llvm.store %{{.*}}, %{{.*}} : i64, !llvm.ptr
// CHECK-NEXT:    %[[TARGET:.*]] = llvm.select %{{.*}}, %{{.*}}, %{{.*}} : i1, !llvm.ptr
// CHECK-NEXT:    llvm.store %{{.*}}, %[[TARGET]] : f32, !llvm.ptr
func.func @copied(%x: memref<4xf32>, %y: memref<4xf32>, %i: index) {
  %e = memref.load %x[%i] : memref<4xf32>
  memref.store %e, %y[%i] : memref<4xf32>
  func.return
}
