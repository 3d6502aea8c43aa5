// SGD over slices of the flat buffers: one pass reads gradients and writes weights, momentum and working
// copies.
#pragma once

#include <vector>

#include "kernels/context.h"
#include "layers/parameter_store.h"

namespace lockstep {

class Optimizer {
 public:
  struct Settings {
    double momentum = 0.9;
    double weight_decay = 0.0;
    bool nesterov = false;
    bool no_bias_decay = false;  // batch norm and biases are left out of weight decay
  };

  Optimizer(const ParameterStore& store, const Settings& settings);

  // Updates parameters first..last (inclusive) from their gradients. Neighbours with equal weight decay are
  // one range, padding included: its gradients are zero, so it stays zero.
  void update(Context& context, const SgdControl& control, int first, int last);

 private:
  const ParameterStore& store_;
  Settings settings_;
  std::vector<int> run_end_;  // by parameter: the last one of its run of equal weight decay
};

}  // namespace lockstep
