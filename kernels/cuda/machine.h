// What the ops of one device share: scratch memory and the handles of NVIDIA's libraries.
#pragma once

#include <utility>

#include "kernels/cuda/convolution.h"
#include "kernels/cuda/cublas.h"
#include "kernels/cuda/workspace.h"

namespace lockstep::cuda {

struct Machine {
  // The current device. warn is told what the libraries could not do as asked, but in another way.
  Machine(int device, Precision f32_products, Convolutions::Warn warn)
      : precision(f32_products),
        workspace(CudaAllocator(device)),
        convolutions(DeviceProperties::of_device(device), workspace, precision, std::move(warn)) {}

  Precision precision;
  Workspace workspace;
  CublasHandle cublas;
  Convolutions convolutions;
};

}  // namespace lockstep::cuda
