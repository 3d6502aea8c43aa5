#include "apps/training/optimizer.h"

#include <algorithm>

namespace lockstep {

Optimizer::Optimizer(const ParameterStore& store, const Settings& settings)
    : store_(store), settings_(settings) {
  const int count = store.count();
  run_end_.resize(static_cast<std::size_t>(count));
  for (int p = count - 1; p >= 0; --p) {
    const auto at = static_cast<std::size_t>(p);
    const bool same = p + 1 < count &&
                      (!settings.no_bias_decay || store.parameter(p).decay == store.parameter(p + 1).decay);
    run_end_[at] = same ? run_end_[at + 1] : p;
  }
}

void Optimizer::update(Context& context, const SgdControl& control, int first, int last) {
  for (int begin = first; begin <= last;) {
    const int end = std::min(last, run_end_[static_cast<std::size_t>(begin)]);
    SgdOptions sgd;
    sgd.momentum = static_cast<float>(settings_.momentum);
    sgd.nesterov = settings_.nesterov;
    const bool decays = !settings_.no_bias_decay || store_.parameter(begin).decay;
    sgd.weight_decay = decays ? static_cast<float>(settings_.weight_decay) : 0.0f;
    context.backend.sgd_step(context.stream, sgd, control, store_.weights(begin, end),
                             store_.gradients(begin, end), store_.momenta(begin, end),
                             store_.workings(begin, end));
    begin = end + 1;
  }
}

}  // namespace lockstep
