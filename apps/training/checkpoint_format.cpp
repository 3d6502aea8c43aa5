#include "apps/training/checkpoint_format.h"

#include <nlohmann/json.hpp>

#include "core/host.h"

namespace lockstep::checkpoint_format {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const CheckpointHeader& header) {
  const RunShape& r = header.run;
  const TrainState& s = header.state;
  return Json{{"lockstep", version()},
              {"model", r.model},
              {"stem", r.stem},
              {"channels", r.channels},
              {"world_size", r.world_size},
              {"batch_size", r.batch_size},
              {"train_samples", r.train_samples},
              {"steps_per_epoch", r.steps_per_epoch},
              {"seed", r.seed},
              {"epoch", s.epoch},
              {"step_in_epoch", s.step_in_epoch},
              {"step", s.step},
              {"loss_sum", s.loss_sum},
              {"loss_samples", s.loss_samples},
              {"skipped_steps", s.skipped_steps},
              {"skipped_in_a_row", s.skipped_in_a_row},
              {"loss_scale", s.loss_scale.scale},
              {"loss_scale_good_steps", s.loss_scale.good_steps},
              {"config", header.config}};
}

CheckpointHeader header_from_json(const Json& json) {
  CheckpointHeader header;
  RunShape& r = header.run;
  json.at("model").get_to(r.model);
  json.at("stem").get_to(r.stem);
  json.at("world_size").get_to(r.world_size);
  json.at("batch_size").get_to(r.batch_size);
  json.at("train_samples").get_to(r.train_samples);
  json.at("steps_per_epoch").get_to(r.steps_per_epoch);
  json.at("seed").get_to(r.seed);
  TrainState& s = header.state;
  json.at("epoch").get_to(s.epoch);
  json.at("step_in_epoch").get_to(s.step_in_epoch);
  json.at("step").get_to(s.step);
  json.at("loss_sum").get_to(s.loss_sum);
  json.at("loss_samples").get_to(s.loss_samples);
  json.at("skipped_steps").get_to(s.skipped_steps);
  json.at("skipped_in_a_row").get_to(s.skipped_in_a_row);
  // Not in earlier files of version 0.1: from before narrow networks, and from before fp16.
  r.channels = json.value("channels", r.channels);
  s.loss_scale.scale = json.value("loss_scale", s.loss_scale.scale);
  s.loss_scale.good_steps = json.value("loss_scale_good_steps", s.loss_scale.good_steps);
  json.at("config").get_to(header.config);
  return header;
}

}  // namespace

std::string to_text(const Contents& contents) {
  Json json = to_json(contents.header);
  Json& tensors = json["tensors"] = Json::array();
  for (const CheckpointEntry& entry : contents.entries) {
    tensors.push_back(Json{{"kind", entry.kind}, {"name", entry.name}, {"shape", entry.shape}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

Contents from_text(std::string_view text) {
  const Json json = Json::parse(text);
  Contents contents{header_from_json(json), {}};
  for (const Json& entry : json.at("tensors")) {
    contents.entries.push_back(
        {entry.at("kind"), entry.at("name"), entry.at("shape").get<std::vector<std::int64_t>>()});
  }
  return contents;
}

}  // namespace lockstep::checkpoint_format
