// SPDX-License-Identifier: Apache-2.0
#include "train/loop/find_non_finite.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/operation.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

// Tensors fetched at a time.
constexpr size_t kFetches = 24;
constexpr int64_t kFetchedElements = 1 << 24;

// The float results that `of` depends on and `of` itself, in the order of the
// graph, which is topological.
std::vector<Tensor> FloatAncestors(Tensor of) {
  std::vector<const Operation*> open = {of.operation()}, found;
  std::vector<bool> seen(of.operation()->id() + 1, false);
  while (!open.empty()) {
    const Operation* operation = open.back();
    open.pop_back();
    if (seen[operation->id()]) continue;
    seen[operation->id()] = true;
    found.push_back(operation);
    for (const Tensor& input : operation->inputs()) {
      open.push_back(input.operation());
    }
  }
  std::sort(
      found.begin(), found.end(),
      [](const Operation* a, const Operation* b) { return a->id() < b->id(); });
  std::vector<Tensor> tensors;
  for (const Operation* operation : found) {
    for (int i = 0; i < operation->num_results(); ++i) {
      if (IsFloat(operation->dtype(i))) {
        tensors.push_back(operation->result(i));
      }
    }
  }
  return tensors;
}

NonFinite CountNonFinite(Tensor tensor, const HostTensor& value) {
  NonFinite result = {.tensor = tensor};
  for (int64_t i = 0; i < value.num_elements(); ++i) {
    const double element = LoadElement(value.data(), value.dtype(), i);
    if (std::isfinite(element)) continue;
    ++result.count;
    result.nan = result.nan || std::isnan(element);
  }
  return result;
}

}  // namespace

std::string NonFinite::ToString() const {
  const Operation& operation = *tensor.operation();
  return absl::StrCat(nan ? "NaN" : "infinite", " in ", count, " of ",
                      Plural(tensor.shape().num_elements(), "element"), " of ",
                      Quoted(tensor.name()), " (", operation.kind(), ", ",
                      operation.call_site().ToString(), ")");
}

absl::StatusOr<std::vector<NonFinite>> FindNonFinite(
    Session& session, Tensor of,
    const std::map<std::string, HostTensor>& feeds) {
  const std::vector<Tensor> tensors = FloatAncestors(of);
  std::vector<NonFinite> result;
  for (size_t begin = 0; begin < tensors.size();) {
    RunRequest request = {.feeds = feeds};
    int64_t elements = 0;
    size_t end = begin;
    for (; end < tensors.size() && end < begin + kFetches; ++end) {
      elements += tensors[end].shape().num_elements();
      if (end > begin && elements > kFetchedElements) break;
      request.fetches.push_back(tensors[end]);
    }
    MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> values,
                         session.Run(request));
    for (size_t i = begin; i < end; ++i) {
      const NonFinite found = CountNonFinite(tensors[i], values[i - begin]);
      if (found.count == 0) continue;
      if (found.nan || result.empty()) result.push_back(found);
      if (found.nan) return result;
    }
    begin = end;
  }
  return result;
}

}  // namespace mtf::train
