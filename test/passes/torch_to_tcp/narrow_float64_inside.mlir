// RUN: padc-opt -p narrow-float64 %s | filecheck %s

// The dtype is replaced, others stay, and so do integers that are no dtypes.
// CHECK-LABEL: func.func @main
// CHECK-DAG:     %[[I32:.*]] = torch.constant.int 3
// CHECK-DAG:     %[[SEVEN:.*]] = torch.constant.int 7
// CHECK:         %[[F32:.*]] = torch.constant.int 6
// CHECK-NEXT:    %[[Y:.*]] = torch.aten._to_copy %x, %[[F32]], {{.*}} -> !torch.vtensor<[8],f32>
// CHECK-NEXT:    %[[Z:.*]] = torch.aten._to_copy %[[Y]], %[[I32]], {{.*}} -> !torch.vtensor<[8],si32>
// CHECK-NEXT:    torch.aten.select.int %[[Z]], %{{.*}}, %[[SEVEN]]
func.func @main(%x : !torch.vtensor<[8],f32>) -> !torch.vtensor<[],si32> {
  %none = torch.constant.none
  %false = torch.constant.bool false
  %zero = torch.constant.int 0
  %i32 = torch.constant.int 3
  %seven = torch.constant.int 7
  %y = torch.aten._to_copy %x, %seven, %none, %none, %none, %false, %none : !torch.vtensor<[8],f32>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.none -> !torch.vtensor<[8],f64>
  %z = torch.aten._to_copy %y, %i32, %none, %none, %none, %false, %none : !torch.vtensor<[8],f64>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.none -> !torch.vtensor<[8],si32>
  %r = torch.aten.select.int %z, %zero, %seven : !torch.vtensor<[8],si32>, !torch.int, !torch.int -> !torch.vtensor<[],si32>
  return %r : !torch.vtensor<[],si32>
}
