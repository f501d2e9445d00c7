// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/cudnn_plan.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/cuda/driver/check.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

// Why the engine of `choice` is not within `limits`, by what it declares; null
// if it is.
absl::StatusOr<const char*> ReasonAgainst(const CudnnDescriptor& choice,
                                          const CudnnEngineLimits& limits) {
  MTF_ASSIGN_OR_RETURN(
      const CudnnDescriptor engine,
      CudnnDescriptor::Create(CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  cudnnBackendDescriptor_t descriptor = engine.get();
  int64_t count = 0;
  MTF_RETURN_IF_ERROR(MTF_CUDNN(cudnnBackendGetAttribute(
      choice.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      1, &count, &descriptor)));
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  MTF_RETURN_IF_ERROR(MTF_CUDNN(cudnnBackendGetAttribute(
      engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
      CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes)));
  for (int64_t i = 0; i < count; ++i) {
    switch (notes[i]) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        if (limits.reproducible) return "its results vary between runs";
        break;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        if (!limits.tensor_cores) return "it uses tensor cores";
        break;
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
        break;
      default:
        if (limits.exact) return "it rounds more than a sum of products does";
        break;
    }
  }
  return nullptr;
}

absl::StatusOr<CudnnDescriptor> Heuristics(const CudnnGraph& graph,
                                           const CudnnDescriptor& device,
                                           cudnnBackendHeurMode_t mode) {
  MTF_ASSIGN_OR_RETURN(
      CudnnDescriptor heuristics,
      CudnnDescriptor::Create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  MTF_RETURN_IF_ERROR(heuristics.SetDescriptor(
      CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.graph()));
  MTF_RETURN_IF_ERROR(heuristics.Set(CUDNN_ATTR_ENGINEHEUR_MODE,
                                     CUDNN_TYPE_HEUR_MODE, 1, &mode));
  if (device.get() != nullptr) {
    MTF_RETURN_IF_ERROR(
        heuristics.SetDescriptor(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device));
  }
  MTF_RETURN_IF_ERROR(heuristics.Finalize());
  return heuristics;
}

// The engines that the heuristics of `mode` list and this machine supports,
// best first.
absl::StatusOr<std::vector<CudnnDescriptor>> Choices(
    const CudnnGraph& graph, const CudnnDescriptor& device,
    cudnnBackendHeurMode_t mode) {
  MTF_ASSIGN_OR_RETURN(const CudnnDescriptor heuristics,
                       Heuristics(graph, device, mode));
  int64_t count = 0;
  MTF_RETURN_IF_ERROR(MTF_CUDNN(cudnnBackendGetAttribute(
      heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
      CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr)));
  std::vector<CudnnDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> descriptors;
  for (int64_t i = 0; i < count; ++i) {
    MTF_ASSIGN_OR_RETURN(
        CudnnDescriptor choice,
        CudnnDescriptor::Create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    descriptors.push_back(choice.get());
    choices.push_back(std::move(choice));
  }
  if (count == 0) return choices;
  int64_t written = 0;
  MTF_RETURN_IF_ERROR(MTF_CUDNN(cudnnBackendGetAttribute(
      heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
      CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &written, descriptors.data())));
  choices.resize(written);
  return choices;
}

absl::StatusOr<CudnnPlan> PlanChoice(const CudnnDescriptor& choice,
                                     cudnnHandle_t handle,
                                     const CudnnDescriptor& device) {
  CudnnPlan made;
  MTF_ASSIGN_OR_RETURN(made.plan, CudnnDescriptor::Create(
                                      CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  if (handle != nullptr) {
    MTF_RETURN_IF_ERROR(made.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                      CUDNN_TYPE_HANDLE, 1, &handle));
  } else {
    MTF_RETURN_IF_ERROR(
        made.plan.SetDescriptor(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device));
  }
  MTF_RETURN_IF_ERROR(
      made.plan.SetDescriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, choice));
  MTF_RETURN_IF_ERROR(made.plan.Finalize());
  int64_t count = 0;
  MTF_RETURN_IF_ERROR(MTF_CUDNN(cudnnBackendGetAttribute(
      made.plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
      CUDNN_TYPE_INT64, 1, &count, &made.workspace_bytes)));
  return made;
}

}  // namespace

absl::StatusOr<CudnnPlan> PlanCudnnGraph(const CudnnGraph& graph,
                                         cudnnHandle_t handle,
                                         const CudnnDescriptor& device,
                                         const CudnnEngineLimits& limits) {
  absl::Status first;
  for (cudnnBackendHeurMode_t mode :
       {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    const auto choices = Choices(graph, device, mode);
    if (!choices.ok()) {
      first.Update(choices.status());
      continue;
    }
    for (const CudnnDescriptor& choice : *choices) {
      const bool takes_any =
          !limits.reproducible && !limits.exact && limits.tensor_cores;
      const absl::StatusOr<const char*> reason =
          takes_any ? nullptr : ReasonAgainst(choice, limits);
      if (!reason.ok() || *reason != nullptr) {
        first.Update(reason.ok() ? absl::UnimplementedError(*reason)
                                 : reason.status());
        continue;
      }
      absl::StatusOr<CudnnPlan> plan = PlanChoice(choice, handle, device);
      if (!plan.ok()) {
        first.Update(plan.status());
      } else if (plan->workspace_bytes <= limits.workspace_bytes) {
        return plan;
      } else {
        first.Update(absl::UnimplementedError(absl::StrCat(
            "it needs ", plan->workspace_bytes,
            " bytes of workspace, more than ", limits.workspace_bytes)));
      }
    }
  }
  // Another failure, such as of the driver, says nothing of the engines.
  if (!first.ok() && !absl::IsUnimplemented(first)) return first;
  return absl::UnimplementedError(
      absl::StrCat("no cuDNN engine can run the graph",
                   first.ok() ? "" : absl::StrCat(": ", first.message())));
}

absl::Status CheckCudnnGraph(const CudnnGraph& graph,
                             const CudnnDescriptor& device) {
  MTF_ASSIGN_OR_RETURN(const std::vector<CudnnDescriptor> choices,
                       Choices(graph, device, CUDNN_HEUR_MODE_A));
  if (!choices.empty()) return absl::OkStatus();
  // The reasons why no listed engine supports the graph here.
  std::string reasons(1 << 16, '\0');
  cudnnGetLastErrorString(reasons.data(), reasons.size());
  if (absl::StrContains(reasons, "RUNTIME_PREREQUISITE_MISSING")) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("no cuDNN engine supports the graph: ", reasons.c_str()));
}

absl::StatusOr<CudnnDescriptor> DescribeDevice(const std::string& text) {
  MTF_ASSIGN_OR_RETURN(
      CudnnDescriptor device,
      CudnnDescriptor::Create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));
  MTF_RETURN_IF_ERROR(
      device.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 static_cast<int64_t>(text.size()), text.data()));
  MTF_RETURN_IF_ERROR(device.Finalize());
  return device;
}

}  // namespace mtf::cuda
