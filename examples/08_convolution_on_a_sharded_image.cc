// SPDX-License-Identifier: Apache-2.0
//
// Lesson 8: a convolution on a sharded image.
//
// Images can be too large for one device. Sharding their height and width is a
// line of text, as for any other dimension:
//
//   height:rows, width:columns
//
// A window of three rows around the last row of a shard needs the first row of
// the next shard: a halo, which neighbours send each other. A batch norm needs
// sums over all pixels: one all_reduce of two numbers per channel. Nobody
// gathers the image. The program prints what a step sends under some layouts,
// and its loss, which is the same under all of them.
#include <iostream>
#include <string>

#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

namespace mtf {
namespace {

// 21 rows: no mesh below divides them.
const Dimension batch{"batch", 4}, height{"height", 21}, width{"width", 20},
    colors{"colors", 3}, channels{"channels", 8};

absl::Status Lesson() {
  Graph graph;
  const Tensor image = RandomUniform(graph, {batch, height, width, colors}, -1,
                                     1, {.per_step = false});
  Tensor x =
      nn::Convolution(image, {{"height", 3}, {"width", 3}}, colors, channels);
  x = Relu(nn::BatchNorm(x, channels));
  x = AveragePool(x, {{"height", 3}, {"width", 3}},
                  {.stride = 1, .padding = WindowPadding::kSame});
  // Learns to blur the first color.
  const Tensor blurred = nn::Convolution(x, {{"height", 1}, {"width", 1}},
                                         channels, {"colors", 1});
  const Tensor target =
      AveragePool(Slice(image, "colors", 0, 1), {{"height", 3}, {"width", 3}},
                  {.stride = 1, .padding = WindowPadding::kSame});
  const Tensor loss = ReduceMean(Square(blurred - target), {});
  const Tensor step = nn::AdamW({.learning_rate = 0.02}).Minimize(loss);

  struct Case {
    std::string mesh, layout;
  };
  for (const Case& each :
       {Case{"", ""}, Case{"rows:3", "height:rows"},
        Case{"rows:2,columns:2", "height:rows, width:columns"},
        Case{"rows:2,columns:3", "height:rows, width:columns"},
        Case{"data:2,rows:2", "batch:data, height:rows"}}) {
    MTF_ASSIGN_OR_RETURN(const auto session,
                         train::Session::Create(graph, each.mesh, each.layout));
    MTF_RETURN_IF_ERROR(session->Initialize());
    double last = 0;
    for (int i = 0; i < 20; ++i) {
      session->ResetCounts();
      MTF_ASSIGN_OR_RETURN(
          const auto values,
          session->Run({.fetches = {loss}, .updates = {step}}));
      MTF_ASSIGN_OR_RETURN(last, values[0].At(0));
    }
    std::cout << absl::StrFormat(
        "loss %.4f  %s\n", last,
        each.mesh.empty() ? "one device" : each.mesh + "  " + each.layout);
    // What a rank sent in the last step.
    for (const auto& [key, count] : session->counts()) {
      std::cout << absl::StrFormat("  %-18s %2d calls %6d bytes\n",
                                   CollectiveName(key.first), count.calls,
                                   count.bytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(
      argc, argv, "Lesson 8: a convolution on a sharded image.", &mtf::Lesson);
}
