// One checkpoint file: a line that says what it is, a JSON header, the tensors, a checksum
// (docs/interfaces.md).
//
//   lockstep-checkpoint 1 <bytes of the header, 10 digits>\n
//   {"model": ..., "tensors": [{"kind", "name", "shape"}, ...]}      padded with blanks
//   f32 little-endian, tensor after tensor in the header's order
//   checksum <16 hex digits>\n                                       of all before it
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/training/canonical.h"
#include "apps/training/loss_scale.h"

namespace lockstep {

// How far a run is, and what it has to remember for the rest of an epoch.
struct TrainState {
  std::int64_t epoch = 0;          // the epoch it is in, from 0
  std::int64_t step_in_epoch = 0;  // steps of that epoch that are done
  std::int64_t step = 0;           // steps of the whole run that are done
  double loss_sum = 0;             // of this epoch: loss times samples
  std::int64_t loss_samples = 0;
  std::int64_t skipped_steps = 0;  // over the whole run
  std::int64_t skipped_in_a_row = 0;
  LossScale loss_scale;  // fp16
};

// What must fit together when a run goes on from a checkpoint.
struct RunShape {
  std::string model, stem;
  std::int64_t channels = 64;
  std::int64_t world_size = 1, batch_size = 0, train_samples = 0, steps_per_epoch = 0, seed = 0;
};

struct CheckpointHeader {
  RunShape run;
  TrainState state;
  std::string config;  // the text of the configuration file
};

// Writes to a temporary file beside `path`, flushes it and the directory to the disk, and renames: `path` is
// the old file or the whole new one, never a part. Error(checkpoint) with the system's reason; no temporary
// file stays.
void write_checkpoint(const std::string& path, const CheckpointHeader& header, Context& context,
                      const CanonicalModel& model);

// A tensor of a file: "weight", "buffer" or "momentum", its name, and its shape in the canonical layout.
struct CheckpointEntry {
  std::string kind, name;
  std::vector<std::int64_t> shape;
};

class CheckpointFile {
 public:
  // Reads and verifies everything. Error(checkpoint) naming the file and what is wrong: missing, empty,
  // truncated, not a checkpoint, damaged.
  explicit CheckpointFile(const std::string& path);

  const CheckpointHeader& header() const { return header_; }
  const std::string& checksum() const { return checksum_; }

  // Where a run of shape `now` goes on. Another model: Error(checkpoint). Inside an epoch the ranks, batch,
  // samples and seed must be those of the file (Error(checkpoint) naming both); between two epochs they may
  // differ, because every rank then takes a new share of the samples.
  TrainState state_for(const RunShape& now) const;

  // Copies weights, momentum and buffers into the model. Error(checkpoint) naming the first tensor that
  // differs.
  void load(Context& context, const CanonicalModel& model) const;

 private:
  std::string path_, checksum_;
  CheckpointHeader header_;
  std::vector<CheckpointEntry> entries_;
  std::unique_ptr<char[]> bytes_;
  std::int64_t data_begin_ = 0;
};

}  // namespace lockstep
