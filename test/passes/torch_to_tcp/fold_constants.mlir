// RUN: padc-opt -p fold-constants %s | filecheck %s

builtin.module {
  // CHECK-LABEL: func.func @chain
  // CHECK-NOT:     torch.aten.triu
  // CHECK:         %[[X:.*]] = torch.vtensor.literal(dense_resource<mask> : tensor<3x3xf32>)
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

  // PyTorch has no such elements.
  // CHECK-LABEL: func.func @other_elements
  // CHECK-NEXT:    torch.aten.relu %x
  // CHECK-NEXT:    torch.aten.relu %n
  // CHECK-NEXT:    torch.aten.neg %c
  func.func @other_elements(%x: !torch.vtensor<[0],f80>, %n: !torch.vtensor<[0],si48>, %c: !torch.vtensor<[0],complex<f16>>) -> (!torch.vtensor<[0],f80>, !torch.vtensor<[0],si48>, !torch.vtensor<[0],complex<f32>>) {
    %y = torch.aten.relu %x : !torch.vtensor<[0],f80> -> !torch.vtensor<[0],f80>
    %m = torch.aten.relu %n : !torch.vtensor<[0],si48> -> !torch.vtensor<[0],si48>
    %d = torch.aten.neg %c : !torch.vtensor<[0],complex<f16>> -> !torch.vtensor<[0],complex<f32>>
    func.return %y, %m, %d : !torch.vtensor<[0],f80>, !torch.vtensor<[0],si48>, !torch.vtensor<[0],complex<f32>>
  }

  // CHECK-LABEL: func.func @random
  // CHECK:         %[[Y:.*]] = torch.aten.rand
  // CHECK-NEXT:    return %[[Y]]
  func.func @random() -> !torch.vtensor<[3],f32> {
    %n = torch.constant.int 3
    %none = torch.constant.none
    %sizes = torch.prim.ListConstruct %n : (!torch.int) -> !torch.list<int>
    %y = torch.aten.rand %sizes, %none, %none, %none, %none : !torch.list<int>, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[3],f32>
    func.return %y : !torch.vtensor<[3],f32>
  }

  // Numbers that do not repeat are computed, however many they are.
  // CHECK-LABEL: func.func @count
  // CHECK-NEXT:    %[[X:.*]] = torch.vtensor.literal(dense_resource<{{x.*}}> : tensor<20000xf32>)
  // CHECK-NEXT:    return %[[X]]
  func.func @count() -> !torch.vtensor<[20000],f32> {
    %n = torch.constant.int 20000
    %type = torch.constant.int 6
    %none = torch.constant.none
    %x = torch.aten.arange %n, %type, %none, %none, %none : !torch.int, !torch.int, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[20000],f32>
    func.return %x : !torch.vtensor<[20000],f32>
  }

  // The device of the model need not exist here.
  // CHECK-LABEL: func.func @device
  // CHECK-NEXT:    torch.vtensor.literal
  // CHECK-NEXT:    return
  func.func @device() -> !torch.vtensor<[2],f32> {
    %n = torch.constant.int 2
    %type = torch.constant.int 6
    %none = torch.constant.none
    %device = torch.constant.device "cuda:7"
    %x = torch.aten.arange %n, %type, %none, %device, %none : !torch.int, !torch.int, !torch.none, !torch.Device, !torch.none -> !torch.vtensor<[2],f32>
    func.return %x : !torch.vtensor<[2],f32>
  }

  // Only an integer of rank 0 is in line.
  // CHECK-LABEL: func.func @ranks
  // CHECK-NEXT:    %[[A:.*]] = torch.vtensor.literal(dense<1> : tensor<si64>)
  // CHECK:         %[[B:.*]] = torch.vtensor.literal(dense_resource<b> : tensor<1xsi64>)
  // CHECK:         %[[C:.*]] = torch.vtensor.literal(dense_resource<{{.*}}> : tensor<f32>)
  // CHECK:         return %[[A]], %[[B]], %[[C]]
  func.func @ranks() -> (!torch.vtensor<[],si64>, !torch.vtensor<[1],si64>, !torch.vtensor<[],f32>) {
    %x = torch.vtensor.literal(dense<-1> : tensor<si64>) : !torch.vtensor<[],si64>
    %y = torch.vtensor.literal(dense<-1> : tensor<1xsi64>) : !torch.vtensor<[1],si64>
    %z = torch.vtensor.literal(dense<-1.0> : tensor<f32>) : !torch.vtensor<[],f32>
    %a = torch.aten.abs %x : !torch.vtensor<[],si64> -> !torch.vtensor<[],si64>
    %b = torch.aten.abs %y : !torch.vtensor<[1],si64> -> !torch.vtensor<[1],si64>
    %c = torch.aten.abs %z : !torch.vtensor<[],f32> -> !torch.vtensor<[],f32>
    func.return %a, %b, %c : !torch.vtensor<[],si64>, !torch.vtensor<[1],si64>, !torch.vtensor<[],f32>
  }

  // Ops of other namespaces stay.
  // CHECK-LABEL: func.func @prim
  // CHECK:         %[[X:.*]] = torch.prim.NumToTensor.Scalar
  // CHECK-NEXT:    return %[[X]]
  func.func @prim() -> !torch.vtensor<[],si64> {
    %n = torch.constant.int 2
    %x = torch.prim.NumToTensor.Scalar %n : !torch.int -> !torch.vtensor<[],si64>
    func.return %x : !torch.vtensor<[],si64>
  }

  // One list is constant, and used as a whole, too; the other list is not known.
  // CHECK-LABEL: func.func @lists
  // CHECK:         %[[L:.*]] = torch.aten.split.Tensor %y
  // CHECK:         %[[Y:.*]], %{{.*}} = torch.prim.ListUnpack %[[L]]
  // CHECK:         %[[C:.*]] = torch.vtensor.literal(dense_resource<{{.*}}> : tensor<2xf32>)
  // CHECK-NEXT:    return %[[Y]], %[[C]]
  func.func @lists(%y: !torch.vtensor<[2],f32>) -> (!torch.vtensor<[1],f32>, !torch.vtensor<[2],f32>) {
    %x = torch.vtensor.literal(dense<2.0> : tensor<2xf32>) : !torch.vtensor<[2],f32>
    %one = torch.constant.int 1
    %zero = torch.constant.int 0
    %l = torch.aten.split.Tensor %y, %one, %zero : !torch.vtensor<[2],f32>, !torch.int, !torch.int -> !torch.list<vtensor>
    %a, %b = torch.prim.ListUnpack %l : !torch.list<vtensor> -> !torch.vtensor<[1],f32>, !torch.vtensor<[1],f32>
    %m = torch.aten.split.Tensor %x, %one, %zero : !torch.vtensor<[2],f32>, !torch.int, !torch.int -> !torch.list<vtensor>
    %c = torch.aten.cat %m, %zero : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[2],f32>
    func.return %a, %c : !torch.vtensor<[1],f32>, !torch.vtensor<[2],f32>
  }

  // Sparse tensors (layout 1) and complex32 (type 8) are no weights.
  // CHECK-LABEL: func.func @no_weights
  // CHECK-COUNT-2: torch.aten.zeros
  func.func @no_weights() -> (!torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>) {
    %n = torch.constant.int 2
    %sparse = torch.constant.int 1
    %complex = torch.constant.int 8
    %none = torch.constant.none
    %sizes = torch.prim.ListConstruct %n : (!torch.int) -> !torch.list<int>
    %x = torch.aten.zeros %sizes, %none, %sparse, %none, %none : !torch.list<int>, !torch.none, !torch.int, !torch.none, !torch.none -> !torch.vtensor<[2],f32>
    %y = torch.aten.zeros %sizes, %complex, %none, %none, %none : !torch.list<int>, !torch.int, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2],f32>
    func.return %x, %y : !torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>
  }

  // A list that an op takes as a whole, which stays.
  // CHECK-LABEL: func.func @whole_list
  // CHECK:         %[[L:.*]] = torch.aten.split.Tensor
  // CHECK-NEXT:    torch.aten.cat %[[L]], %dim
  func.func @whole_list(%dim: !torch.int) -> !torch.vtensor<[2],f32> {
    %x = torch.vtensor.literal(dense<2.0> : tensor<2xf32>) : !torch.vtensor<[2],f32>
    %one = torch.constant.int 1
    %zero = torch.constant.int 0
    %l = torch.aten.split.Tensor %x, %one, %zero : !torch.vtensor<[2],f32>, !torch.int, !torch.int -> !torch.list<vtensor>
    %c = torch.aten.cat %l, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[2],f32>
    func.return %c : !torch.vtensor<[2],f32>
  }
}
