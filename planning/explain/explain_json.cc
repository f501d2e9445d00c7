// SPDX-License-Identifier: Apache-2.0
//
// ExplainJson. docs/explain.md is the schema: keys may be added, but never
// change their meaning.
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "planning/explain/explain_parts.h"

namespace mtf {
namespace internal {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const StepCost& cost) {
  return {{"seconds", cost.seconds},
          {"wire_bytes", cost.wire_bytes},
          {"memory_bytes", cost.memory_bytes}};
}

// An index into a list, or null if it is negative.
Json IndexOrNull(int index) { return index < 0 ? Json() : Json(index); }

Json ToJson(const ExplainedCollective& c) {
  return {{"number", c.number},
          {"instruction", c.instruction},
          {"kind", c.kind},
          {"axes", c.axes},
          {"group_size", c.group_size},
          {"tensor", c.tensor},
          {"dimension", c.dimension},
          {"rule", c.rule},
          {"rule_origin", c.rule_origin},
          {"rules", c.rules},
          {"operation", c.operation},
          {"module", c.module},
          {"site", c.site},
          {"bytes", c.bytes},
          {"seconds", c.seconds},
          {"exposed", c.exposed},
          {"asynchronous", c.asynchronous},
          {"change", IndexOrNull(c.change)},
          {"no_change", c.no_change},
          {"instead", c.instead}};
}

Json ToJson(const ExplainedEinsum& e) {
  return {{"instruction", e.instruction},
          {"operation", e.operation},
          {"module", e.module},
          {"site", e.site},
          {"sharding", e.sharding},
          {"batch", e.batch},
          {"m", e.m},
          {"n", e.n},
          {"k", e.k},
          {"flops", e.flops},
          {"repeated", e.repeated},
          {"seconds", e.seconds},
          {"moved_bytes", e.moved_bytes},
          {"bound_bytes", e.bound_bytes},
          {"layout_dimensions", static_cast<int>(e.layout)},
          {"best_dimensions", static_cast<int>(e.best)}};
}

Json ToJson(const ExplainedTotal& total) {
  return {{"name", total.name},       {"calls", total.calls},
          {"bytes", total.bytes},     {"collective_seconds", total.collectives},
          {"exposed", total.exposed}, {"compute_seconds", total.compute},
          {"flops", total.flops}};
}

Json ToJson(const ExplainedMargin& margin) {
  return {{"axis", margin.axis},
          {"flops_per_byte", margin.flops_per_byte},
          {"break_even", margin.break_even}};
}

Json ToJson(const ExplainedTensor& tensor) {
  return {
      {"name", tensor.name},           {"kind", MemoryKindName(tensor.kind)},
      {"type", tensor.type},           {"bytes", tensor.bytes},
      {"operation", tensor.operation}, {"site", tensor.site}};
}

Json ToJson(const MemoryParts& parts) {
  return {{"parameters", parts.parameters},
          {"optimizer_state", parts.optimizer_state},
          {"state", parts.state},
          {"gradients", parts.gradients},
          {"copies", parts.copies},
          {"activations", parts.activations},
          {"unused", parts.unused},
          {"host", parts.host}};
}

Json ToJson(const ExplainedRule& rule) {
  const char* use = rule.use == RuleUse::kUsed     ? "used"
                    : rule.use == RuleUse::kUnused ? "unused"
                                                   : "shadowed";
  return {{"section", rule.section},
          {"rule", rule.rule},
          {"origin", rule.origin},
          {"use", use},
          {"why", rule.why},
          {"dropped", IndexOrNull(rule.dropped)},
          {"memory_saved", rule.saved ? Json(rule.saved->total()) : Json()},
          {"saved", rule.saved ? ToJson(*rule.saved) : Json()}};
}

Json ToJson(const ExplainedPadding& padding) {
  return {{"dimension", padding.dimension},
          {"size", padding.size},
          {"padded", padding.padded}};
}

Json ToJson(const RuleChange& change) {
  return {{"edit", change.edit},
          {"layout", change.layout},
          {"cost", ToJson(change.cost)},
          {"memory", ToJson(change.memory)},
          {"estimated", change.estimated}};
}

const char* PhaseName(StepPhase phase) {
  switch (phase) {
    case StepPhase::kForward:
      return "forward";
    case StepPhase::kBackward:
      return "backward";
    case StepPhase::kUpdate:
      return "update";
  }
  return "";
}

Json ToJson(const TimelineEntry& entry) {
  return {
      {"instruction", entry.instruction},
      {"collective", entry.collective == 0 ? Json() : Json(entry.collective)},
      {"name", entry.name},
      {"phase", PhaseName(entry.phase)},
      {"begin", entry.begin},
      {"end", entry.end},
      {"exposed", entry.exposed}};
}

Json ToJson(const TensorPlacement& tensor) {
  Json dimensions = Json::array();
  for (const TensorPlacement::ShardedDimension& dimension : tensor.dimensions) {
    dimensions.push_back({{"name", dimension.name},
                          {"size", dimension.size},
                          {"padded", dimension.padded},
                          {"axes", dimension.axes}});
  }
  return {{"name", tensor.name},   {"kind", tensor.kind},
          {"dtype", tensor.dtype}, {"dimensions", std::move(dimensions)},
          {"bytes", tensor.bytes}, {"offloaded", tensor.offloaded}};
}

Json ToJson(const ExplainedAttention::Composed& composed) {
  return {{"operation", composed.operation},
          {"module", composed.module},
          {"site", composed.site},
          {"why", composed.why}};
}

template <class T>
Json ToJson(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(ToJson(item));
  return list;
}

Json ToJson(const ExplainedMemory& m) {
  return {{"total", m.total},
          {"parameters", m.parts.parameters},
          {"optimizer_state", m.parts.optimizer_state},
          {"state", m.parts.state},
          {"arena", m.arena},
          {"gradients", m.parts.gradients},
          {"copies", m.parts.copies},
          {"activations", m.parts.activations},
          {"unused", m.parts.unused},
          {"host", m.parts.host},
          {"machine_bytes", m.machine_bytes},
          {"peak_operation", m.peak_operation},
          {"peak_site", m.peak_site},
          {"alive", ToJson(m.alive)}};
}

Json ToJson(const ExplainedAttention& attention) {
  return {{"instructions", attention.instructions},
          {"composed", ToJson(attention.composed)}};
}

Json ToJson(const Mesh& mesh) {
  Json axes = Json::array();
  for (const MeshAxis& axis : mesh.axes()) {
    axes.push_back({{"name", axis.name}, {"size", axis.size}});
  }
  return {{"axes", std::move(axes)}, {"devices", mesh.num_devices()}};
}

}  // namespace
}  // namespace internal

std::string ExplainJson(const Explanation& e) {
  using internal::ToJson;
  const nlohmann::ordered_json json = {
      {"format", "mtf.explanation.1"},
      {"program", e.program},
      {"request", e.request},
      {"batch", e.batch},
      {"precision", e.precision},
      {"mesh", ToJson(e.mesh)},
      {"layout", e.layout},
      {"machine", e.machine},
      {"machine_checked", e.machine_checked},
      {"cost", ToJson(e.cost)},
      {"flops", e.flops},
      {"compute_seconds", e.compute},
      {"collective_seconds", e.collective_seconds},
      {"exposed", e.exposed},
      {"host_copy_seconds", e.host_copy_seconds},
      {"host_copy_bytes", e.host_copy_bytes},
      {"notices", e.notices},
      {"collectives", ToJson(e.collectives)},
      {"by_kind", ToJson(e.by_kind)},
      {"by_axis", ToJson(e.by_axis)},
      {"by_module", ToJson(e.by_module)},
      {"margins", ToJson(e.margins)},
      {"einsums", ToJson(e.einsums)},
      {"memory", ToJson(e.memory)},
      {"attention", ToJson(e.attention)},
      {"rules", ToJson(e.rules)},
      {"padding", ToJson(e.padding)},
      {"changes", ToJson(e.changes)},
      {"changes_note", e.changes_note},
      {"timeline", ToJson(e.timeline)},
      {"tensors", ToJson(e.tensors)},
  };
  // JSON is UTF-8, but names given by users may hold any bytes.
  return absl::StrCat(
      json.dump(1, ' ', false,
                nlohmann::ordered_json::error_handler_t::replace),
      "\n");
}

}  // namespace mtf
