// SPDX-License-Identifier: Apache-2.0
//
// Searches layouts. Target: GPT-3 175B on a mesh of 8 x 8 x 8 in less than a
// second, with the best layout priced on all 96 layers.
#include <benchmark/benchmark.h>

#include <string>

#include "mtf/check.h"
#include "planning/cost/retain_heap.h"
#include "planning/search/search_layouts.h"
#include "tools/models.h"

namespace mtf {
namespace {

// Argument: memory of a device in GiB.
void BM_Search(benchmark::State& state, const std::string& model,
               const std::string& mesh) {
  internal::RetainHeap();  // as mtf search does
  const auto sizes = FindModel(model);
  MTF_CHECK_OK(sizes.status());
  const auto step = BuildGpt(*sizes);
  MTF_CHECK_OK(step.status());
  const SearchPrices prices = PricesOf(*Machine::Load("h100_nvlink_ib"));
  for (auto _ : state) {
    const auto found =
        SearchRules(step->Input(), *Mesh::Parse(mesh), prices,
                    {.memory_limit = state.range(0) << 30, .keep = 1});
    MTF_CHECK_OK(found.status());
    MTF_CHECK(found->complete);
    state.counters["layouts"] = found->space;
    state.counters["lowered"] = static_cast<double>(found->lowered);
    state.counters["step_ms"] = 1e3 * found->best[0].price.seconds;
  }
}
BENCHMARK_CAPTURE(BM_Search, gpt3_175b_8x8x8, "gpt3_175b",
                  "pod:8,data:8,model:8")
    ->ArgName("GiB")
    ->Arg(80)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Search, gpt3_7b_8x8, "gpt3_7b", "data:8,model:8")
    ->ArgName("GiB")
    ->Arg(80)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mtf
