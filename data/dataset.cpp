#include "data/dataset.h"

#include "core/error.h"

namespace lockstep {

void limit(Dataset& dataset, std::int64_t n, const std::string& option) {
  if (n < 1) {
    fail(ExitCode::usage, "{} {}: at least one sample is needed. Give a number from 1 to {}.", option, n,
         dataset.size());
  }
  if (n > dataset.size()) {
    fail(ExitCode::usage,
         "{} {}: the {} data set has only {} samples. Give a smaller number, or leave the option out.",
         option, n, dataset.name, dataset.size());
  }
  dataset.labels.resize(static_cast<std::size_t>(n));
  dataset.images.resize(static_cast<std::size_t>(n * dataset.image_bytes()));
}

}  // namespace lockstep
