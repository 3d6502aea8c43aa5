// The state of dynamic loss scaling (fp16), as in torch.amp.GradScaler.
#pragma once

namespace lockstep {

struct LossScale {
  float scale = 65536.0f;
  float good_steps = 0.0f;  // since the scale last changed
};

}  // namespace lockstep
