#include "cudasim/cudnn/plan.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace cudasim {
namespace {

using Json = nlohmann::json;

Type type_of(const std::string& name) {
  if (name == "CUDNN_DATA_FLOAT") return Type::f32;
  if (name == "CUDNN_DATA_BFLOAT16") return Type::bf16;
  if (name == "CUDNN_DATA_HALF") return Type::f16;
  throw std::runtime_error("elements of type " + name);
}

Tensor find_tensor(const Json& graph, const std::string& id) {
  for (const Json& entry : graph.at("tensors")) {
    if (entry.at("name") != id) continue;
    Tensor tensor;
    tensor.id = id;
    tensor.type = type_of(entry.at("dataType"));
    entry.at("dim").get_to(tensor.dims);
    entry.at("stride").get_to(tensor.strides);
    if (entry.at("isVirtual") || entry.at("isByValue")) throw std::runtime_error("a tensor without memory");
    return tensor;
  }
  throw std::runtime_error("the plan's graph has no tensor " + id);
}

}  // namespace

std::int64_t Tensor::bytes() const {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
  return (last + 1) * (type == Type::f32 ? 4 : 2);
}

Plan parse_plan(const std::string& json) {
  const Json document = Json::parse(json);
  const Json& graph = document.at("operationGraph");
  if (graph.at("nodes").size() != 1) throw std::runtime_error("a graph of several operations");
  const Json& node = graph.at("nodes")[0];
  if (node.at("mode") != "CUDNN_CROSS_CORRELATION" || node.at("mathPrec") != "CUDNN_DATA_FLOAT") {
    throw std::runtime_error("not a cross-correlation with f32 sums");
  }
  Plan plan;
  const std::string operation = node.at("operation");
  if (operation == "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR") {
    plan.direction = Direction::backward_data;
  } else if (operation == "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR") {
    plan.direction = Direction::backward_weight;
  } else if (operation != "CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR") {
    throw std::runtime_error(operation);
  }
  node.at("pad").get_to(plan.padding);
  node.at("stride").get_to(plan.stride);
  node.at("dilation").get_to(plan.dilation);
  node.at("alpha").get_to(plan.alpha);
  node.at("beta").get_to(plan.beta);
  plan.x = find_tensor(graph, node.at(plan.direction == Direction::backward_data ? "dX" : "X"));
  plan.w = find_tensor(graph, node.at(plan.direction == Direction::backward_weight ? "dW" : "W"));
  plan.y = find_tensor(graph, node.at(plan.direction == Direction::forward ? "Y" : "dY"));
  return plan;
}

}  // namespace cudasim
