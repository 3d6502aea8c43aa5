// The op catalogue: every op that training needs, once, with its contract. An implementation is a folder
// (reference/, cpu/, cuda/) with a file for each op family.
//
// Common contract
//   - An op is enqueued on its stream and reads and writes only the tensors named. On the CPU backends the
//     compute stream runs inline, so the op is done when the call returns.
//   - Layout: activations are NHWC, convolution weights [Cout][kh][kw][Cin], matrices [rows][columns].
//   - "compute" is the type of activations and working weights: f32, bf16 or f16. The cpu backend does not
//     have f16: Error(usage). Everything that is trained (masters, gradients, momentum) and every statistic
//     is f32. Sums accumulate in f32 or better.
//   - On a device with `tf32` the products of convolutions and linear layers round f32 factors to TF32 (10
//   bits
//     of mantissa) first; without it, no op rounds what it reads.
//   - Shapes and types are checked (contracts.h); a violation is Error(internal) naming op and tensor.
//   - Inputs and outputs do not overlap unless the op says so. N may be smaller than a buffer's batch.
//   - A NaN reaches the output: ReLU gives NaN for NaN, max pooling for a window that holds one. (A backend
//     that swallowed it would train on with a broken network.)
//   - Equal inputs, shapes and thread count give equal bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/device.h"
#include "core/stream.h"
#include "core/tensor.h"

namespace lockstep {

// What a gradient op does to its destination.
enum class GradMode { overwrite, accumulate };

// Square kernel, stride and padding; cross-correlation as in torch.nn.Conv2d without bias.
struct ConvShape {
  std::int64_t n = 0, h = 0, w = 0, c_in = 0, c_out = 0;
  std::int64_t kernel = 1, stride = 1, padding = 0;

  std::int64_t out_h() const { return (h + 2 * padding - kernel) / stride + 1; }
  std::int64_t out_w() const { return (w + 2 * padding - kernel) / stride + 1; }
  bool operator==(const ConvShape&) const = default;
};

// Window of max pooling (padding counts as minus infinity).
struct PoolShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0;
  std::int64_t kernel = 3, stride = 2, padding = 1;

  std::int64_t out_h() const { return (h + 2 * padding - kernel) / stride + 1; }
  std::int64_t out_w() const { return (w + 2 * padding - kernel) / stride + 1; }
};

// Batch norm over all but the last dimension of x (rows = N*H*W, channels = C).
struct BatchNormOptions {
  float epsilon = 1e-5f;
  float momentum = 0.1f;  // running = (1 - momentum) * running + momentum * batch
  bool relu = false;      // y = max(0, ...) as the last step
};

struct SgdOptions {
  float momentum = 0.0f;
  float weight_decay = 0.0f;
  bool nesterov = false;
};

// What changes from step to step lies in the backend's memory and is read when the op runs: the host need not
// know it when it enqueues, and a recorded step can be replayed. Each is f32 [1].
struct SgdControl {
  TensorView learning_rate;
  TensorView skip;            // above 0: the op changes nothing. May be "no tensor".
  TensorView gradient_scale;  // dw is the gradient times this, a power of two. May be "no tensor": 1.
};

// Dynamic loss scaling as in torch.amp.GradScaler, with a floor.
struct LossScaleOptions {
  float growth = 2.0f;
  float backoff = 0.5f;
  float growth_interval = 2000.0f;  // steps
  float floor = 1.0f;
};

// Crop and flip are functions of (seed, epoch, sample) alone; see augment_normalize.
struct AugmentOptions {
  bool train = true;  // false: no crop, no flip
  std::uint64_t seed = 0;
  std::int64_t padding = 4;
  float mean[3] = {0, 0, 0};  // of pixel / 255
  float inverse_deviation[3] = {1, 1, 1};
};

// In bytes. On a device what is taken of it, by whomever; on the host the most that this process has had at a
// time, and no total (0).
struct MemoryUse {
  std::int64_t used = 0, total = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  virtual Allocator& allocator() = 0;       // memory that its ops can use
  virtual Allocator& host_allocator() = 0;  // host memory with which a copy does not make the host wait
  virtual MemoryUse memory_use() const = 0;
  virtual std::unique_ptr<Stream> make_compute_stream() = 0;
  // Changes whenever scratch memory of the ops has moved: what was recorded before must not be replayed.
  virtual std::int64_t scratch_generation() const { return 0; }

  // --- memory -------------------------------------------------------------------------------------
  // Host memory of a copy stays as it is until the stream has passed the copy.
  virtual void copy_to_device(Stream& stream, void* dst, const void* host_src, std::int64_t bytes) = 0;
  virtual void copy_to_host(Stream& stream, void* host_dst, const void* src, std::int64_t bytes) = 0;
  // Both in memory of allocator(), and apart.
  virtual void copy_on_device(Stream& stream, void* dst, const void* src, std::int64_t bytes) = 0;
  virtual void fill_zero(Stream& stream, void* dst, std::int64_t bytes) = 0;

  // --- convolution ----------------------------------------------------------------------------------
  // y[n,p,q,k] = sum over r,s,c of x[n, p*stride-padding+r, q*stride-padding+s, c] * w[k,r,s,c].
  // x [n,h,w,c_in], w [c_out,kernel,kernel,c_in], y [n,out_h,out_w,c_out]: compute type. dw: f32, shape of w;
  // where the compute type is a 16-bit one, a backend may round its sums to it once (PyTorch does, and so
  // does cuda/).
  virtual void conv2d_forward(Stream&, const ConvShape&, const TensorView& x, const TensorView& w,
                              const TensorView& y) = 0;
  virtual void conv2d_backward_data(Stream&, const ConvShape&, const TensorView& dy, const TensorView& w,
                                    const TensorView& dx, GradMode) = 0;
  virtual void conv2d_backward_weight(Stream&, const ConvShape&, const TensorView& x, const TensorView& dy,
                                      const TensorView& dw, GradMode) = 0;

  // --- batch norm, fused with the residual add and ReLU (Ioffe and Szegedy, 2015) -----------------
  // y = relu?((x - mean) * invstd * gamma + beta + residual?). residual may be "no tensor"; y may be x or
  // residual. x, residual, y: compute type, [..., C]. All else f32 [C].
  // Training: mean and biased variance of the batch, invstd = 1/sqrt(variance + epsilon), both saved; the
  // running variance takes the unbiased one (rows/(rows-1)), as PyTorch. rows >= 2. Large means must not
  // cancel.
  virtual void batch_norm_forward_training(Stream&, const BatchNormOptions&, const TensorView& x,
                                           const TensorView& gamma, const TensorView& beta,
                                           const TensorView& residual, const TensorView& running_mean,
                                           const TensorView& running_var, const TensorView& saved_mean,
                                           const TensorView& saved_invstd, const TensorView& y) = 0;
  // Uses the running statistics and changes nothing but y.
  virtual void batch_norm_forward_evaluation(Stream&, const BatchNormOptions&, const TensorView& x,
                                             const TensorView& gamma, const TensorView& beta,
                                             const TensorView& residual, const TensorView& running_mean,
                                             const TensorView& running_var, const TensorView& y) = 0;
  // With g = dy where relu is off, else dy where y > 0 and 0 elsewhere:
  //   dbeta = sum g;  dgamma = sum g * xhat;  xhat = (x - mean) * invstd
  //   dx = gamma * invstd * (g - dbeta/rows - xhat * dgamma/rows)
  //   dresidual = g (where given).
  // y is what forward wrote, and may be "no tensor" when relu is off. dx may be dy or x; dresidual may be dy
  // (dx and dresidual are two tensors).
  virtual void batch_norm_backward(Stream&, const BatchNormOptions&, const TensorView& x, const TensorView& y,
                                   const TensorView& dy, const TensorView& gamma,
                                   const TensorView& saved_mean, const TensorView& saved_invstd,
                                   const TensorView& dx, const TensorView& dresidual,
                                   const TensorView& dgamma, const TensorView& dbeta,
                                   GradMode parameter_mode) = 0;
  // Backward of batch_norm_forward_evaluation: the statistics are constants, so dx = g * gamma * invstd.
  virtual void batch_norm_backward_evaluation(Stream&, const BatchNormOptions&, const TensorView& x,
                                              const TensorView& y, const TensorView& dy,
                                              const TensorView& gamma, const TensorView& running_mean,
                                              const TensorView& running_var, const TensorView& dx,
                                              const TensorView& dresidual, const TensorView& dgamma,
                                              const TensorView& dbeta, GradMode parameter_mode) = 0;

  // --- ReLU ---------------------------------------------------------------------------------------
  virtual void relu_forward(Stream&, const TensorView& x, const TensorView& y) = 0;  // y may be x
  // dx = dy where y > 0, else 0. dx may be dy.
  virtual void relu_backward(Stream&, const TensorView& y, const TensorView& dy, const TensorView& dx) = 0;

  // --- pooling ------------------------------------------------------------------------------------
  // index: u8, shape of y: the position in the window (row * kernel + column) of the first maximum in row
  // order; a NaN is larger than all numbers.
  virtual void max_pool_forward(Stream&, const PoolShape&, const TensorView& x, const TensorView& y,
                                const TensorView& index) = 0;
  virtual void max_pool_backward(Stream&, const PoolShape&, const TensorView& dy, const TensorView& index,
                                 const TensorView& dx) = 0;
  // Mean over H and W: x [n,h,w,c] -> y [n,c].
  virtual void global_average_pool_forward(Stream&, const TensorView& x, const TensorView& y) = 0;
  virtual void global_average_pool_backward(Stream&, const TensorView& dy, const TensorView& dx) = 0;

  // --- linear: y = x w^T + bias -------------------------------------------------------------------
  // x [n,in], w [out,in], y [n,out]: compute type. bias, dw, dbias: f32.
  virtual void linear_forward(Stream&, const TensorView& x, const TensorView& w, const TensorView& bias,
                              const TensorView& y) = 0;
  virtual void linear_backward_data(Stream&, const TensorView& dy, const TensorView& w,
                                    const TensorView& dx) = 0;
  virtual void linear_backward_weight(Stream&, const TensorView& x, const TensorView& dy,
                                      const TensorView& dw, const TensorView& dbias, GradMode) = 0;

  // --- softmax cross-entropy with label smoothing (Szegedy et al., 2016; torch.nn.CrossEntropyLoss) ----
  // target = (1 - smoothing) * onehot + smoothing / classes. labels i32 [n].
  // loss f32 [1]: mean over n of -sum target * log_softmax.
  // correct i32 [1]: samples whose first largest logit is the label (0 for a NaN row).
  // dlogits: shape and type of logits, (softmax - target) / n, times gradient_scale (f32 [1]) where that is
  // given; may be "no tensor" (evaluation).
  virtual void softmax_cross_entropy(Stream&, const TensorView& logits, const TensorView& labels,
                                     float smoothing, const TensorView& gradient_scale,
                                     const TensorView& loss, const TensorView& correct,
                                     const TensorView& dlogits) = 0;

  // --- optimiser ----------------------------------------------------------------------------------
  // One pass over a flat range, torch.optim.SGD with dampening 0: g = dw / gradient_scale + weight_decay * w;
  // v = momentum * v + g; w -= learning_rate * (nesterov ? g + momentum * v : v). w, dw, v: f32.
  // working: the new w in compute type, or "no tensor".
  virtual void sgd_step(Stream&, const SgdOptions&, const SgdControl&, const TensorView& w,
                        const TensorView& dw, const TensorView& v, const TensorView& working) = 0;
  // overflow f32 [1], scale f32 [1], good_steps f32 [1] (since the last change). overflow above 0: scale =
  // max(floor, scale * backoff), good_steps = 0. Else good_steps grows by one and, at growth_interval, is set
  // to 0 and scale *= growth (unless that overflows).
  virtual void update_loss_scale(Stream&, const LossScaleOptions&, const TensorView& overflow,
                                 const TensorView& scale, const TensorView& good_steps) = 0;

  // --- input --------------------------------------------------------------------------------------
  // images u8 [count,3,h,w] (planar, as in the CIFAR-10 files); samples i32 [n] pick the rows; epoch i32 [1]
  // (evaluation: may be "no tensor"); y [n,h,w,3].
  // Training: words r0..r3 of Philox(seed, augment).block(epoch, sample) give offsets dy = r0 %
  // (2*padding+1), dx = r1 % (2*padding+1) into the image padded with zeros (pixel value 0 before
  // normalisation, as torchvision.transforms.RandomCrop), and a horizontal flip of the crop where r2 is odd.
  // Then (pixel/255 - mean) * inverse_deviation.
  virtual void augment_normalize(Stream&, const AugmentOptions&, const TensorView& images,
                                 const TensorView& samples, const TensorView& epoch, const TensorView& y) = 0;

  // --- utilities ----------------------------------------------------------------------------------
  // From one compute type to another, rounded to nearest even; NaN stays NaN.
  virtual void cast(Stream&, const TensorView& x, const TensorView& y) = 0;
  // flag f32 [1] becomes 1 if x (compute type) holds a NaN or an infinity; is left alone otherwise.
  virtual void non_finite_check(Stream&, const TensorView& x, const TensorView& flag) = 0;
  // y = x where flag (f32 [1]) is above 0; else y is left alone. x, y: f32, of one shape, apart.
  virtual void copy_if(Stream&, const TensorView& flag, const TensorView& x, const TensorView& y) = 0;

  // --- sums over a whole tensor -------------------------------------------------------------------
  // sum f32 [1] = sum of x^2, x f32 of any shape. Squares and sums are f64, rounded to f32 once: its square
  // root is the norm, and the order of the sum does not show but for that last rounding. Above f32's range:
  // inf.
  virtual void sum_of_squares(Stream&, const TensorView& x, const TensorView& sum) = 0;
  // sum i32 [2] = low and high word of checksum() (core/hash.h) of x's bytes; x of any type and shape. Equal
  // on all backends.
  virtual void checksum(Stream&, const TensorView& x, const TensorView& sum) = 0;
};

// The backend of a device. Error(device) where this build or this machine does not have it, saying why.
std::unique_ptr<Backend> make_backend(const Device& device);

// One a folder; a build without the libraries links a stub that throws Error(device).
std::unique_ptr<Backend> make_reference_backend();
std::unique_ptr<Backend> make_cpu_backend(int threads);
std::unique_ptr<Backend> make_cuda_backend(const Device& device);
// Why this process cannot have a CUDA backend on the device of that number, and the remedy: there is none,
// too few, or one older than the kernels were compiled for. Empty: it can. Error(device) as of
// cuda_device_count().
std::string cuda_device_problem(int index);
// Versions of the libraries a backend uses, for --version; "not built in" from a stub.
std::string cpu_backend_libraries();
std::string cuda_backend_libraries();
// Whether this build has the CPU backend (oneDNN). Where it has not, `--device auto` takes the reference.
bool has_cpu_backend();

}  // namespace lockstep
