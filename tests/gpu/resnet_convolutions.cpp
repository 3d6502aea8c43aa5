#include "resnet_convolutions.h"

#include <algorithm>

namespace lockstep::test {
namespace {

class Walk {
 public:
  Walk(std::int64_t batch, std::int64_t size) : batch_(batch), size_(size) {}

  void convolution(std::int64_t c_out, std::int64_t kernel, std::int64_t stride) {
    const ConvShape shape{batch_, size_, size_, channels_, c_out, kernel, stride, kernel / 2};
    if (std::find(found_.begin(), found_.end(), shape) == found_.end()) found_.push_back(shape);
    channels_ = c_out;
    size_ = shape.out_h();
  }
  void max_pool() { size_ = PoolShape{batch_, size_, size_, channels_}.out_h(); }

  void block(bool bottleneck, std::int64_t width, std::int64_t stride) {
    const std::int64_t c_out = bottleneck ? 4 * width : width;
    if (stride != 1 || channels_ != c_out) {
      Walk shortcut = *this;
      shortcut.convolution(c_out, 1, stride);
      found_ = shortcut.found_;
    }
    if (bottleneck) {
      convolution(width, 1, 1);
      convolution(width, 3, stride);
      convolution(c_out, 1, 1);
    } else {
      convolution(width, 3, stride);
      convolution(width, 3, 1);
    }
  }

  // A stage's blocks after the second repeat it, so two of each show all that deeper networks have.
  void network(bool imagenet_stem, bool bottleneck) {
    imagenet_stem ? convolution(64, 7, 2) : convolution(64, 3, 1);
    if (imagenet_stem) max_pool();
    for (int stage = 0; stage < 4; ++stage) {
      const std::int64_t width = std::int64_t{64} << stage;
      block(bottleneck, width, stage > 0 ? 2 : 1);
      block(bottleneck, width, 1);
    }
  }

  const std::vector<ConvShape>& found() const { return found_; }

 private:
  std::int64_t batch_, size_, channels_ = 3;
  std::vector<ConvShape> found_;
};

}  // namespace

std::vector<ConvShape> resnet_convolutions(bool imagenet_stem, std::int64_t batch, std::int64_t size) {
  Walk basic(batch, size), bottleneck(batch, size);
  basic.network(imagenet_stem, false);
  bottleneck.network(imagenet_stem, true);
  std::vector<ConvShape> shapes = basic.found();
  for (const ConvShape& shape : bottleneck.found()) {
    if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace lockstep::test
