// RUN: padc-opt -p fold-constants %s | filecheck %s

builtin.module {
  // CHECK-LABEL: func.func @chain
  // CHECK-NOT:     torch.aten.triu
  // CHECK:         %[[X:.*]] = torch.vtensor.literal(dense_resource<{{.*}}> : tensor<3x3xf32>)
  // CHECK-NEXT:    torch.aten.add.Tensor %x, %[[X]]
  func.func @chain(%x: !torch.vtensor<[3,3],f32>) -> !torch.vtensor<[3,3],f32> {
    %n = torch.constant.int 3
    %one = torch.constant.int 1
    %none = torch.constant.none
    %value = torch.constant.float 2.0
    %sizes = torch.prim.ListConstruct %n, %n : (!torch.int, !torch.int) -> !torch.list<int>
    %full = torch.aten.full %sizes, %value, %none, %none, %none, %none : !torch.list<int>, !torch.float, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[3,3],f32>
    %mask = torch.aten.triu %full, %one : !torch.vtensor<[3,3],f32>, !torch.int -> !torch.vtensor<[3,3],f32>
    %y = torch.aten.add.Tensor %x, %mask, %one : !torch.vtensor<[3,3],f32>, !torch.vtensor<[3,3],f32>, !torch.int -> !torch.vtensor<[3,3],f32>
    func.return %y : !torch.vtensor<[3,3],f32>
  }

  // What repeats a number stays an op if it is large.
  // CHECK-LABEL: func.func @large
  // CHECK:         torch.aten.full
  func.func @large() -> !torch.vtensor<[300,300],f32> {
    %n = torch.constant.int 300
    %none = torch.constant.none
    %value = torch.constant.float 2.0
    %sizes = torch.prim.ListConstruct %n, %n : (!torch.int, !torch.int) -> !torch.list<int>
    %full = torch.aten.full %sizes, %value, %none, %none, %none, %none : !torch.list<int>, !torch.float, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[300,300],f32>
    func.return %full : !torch.vtensor<[300,300],f32>
  }

  // CHECK-LABEL: func.func @random
  // CHECK:         torch.aten.rand
  func.func @random() -> !torch.vtensor<[3],f32> {
    %n = torch.constant.int 3
    %none = torch.constant.none
    %sizes = torch.prim.ListConstruct %n : (!torch.int) -> !torch.list<int>
    %y = torch.aten.rand %sizes, %none, %none, %none, %none : !torch.list<int>, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[3],f32>
    func.return %y : !torch.vtensor<[3],f32>
  }
}
