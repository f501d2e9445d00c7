// SPDX-License-Identifier: Apache-2.0
//
// What random programs over images share.
#ifndef TESTS_PROPERTIES_IMAGE_MAKER_H_
#define TESTS_PROPERTIES_IMAGE_MAKER_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "mtf/check.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/track_average.h"
#include "ops/variable.h"
#include "ops/windows.h"
#include "tests/properties/random_case.h"

namespace mtf::testing {

// Draws numbers, parameters and paddings for a program over an image, and adds
// its loss and gradients.
class ImageMaker {
 protected:
  ImageMaker(uint64_t seed, RandomProgram& program)
      : random_(seed), program_(program), graph_(*program.graph) {}

  int Int(int low, int high) {
    return low + static_cast<int>(random_() % (high - low + 1));
  }
  bool Chance(double p) {
    return static_cast<double>(random_() % 100) < 100 * p;
  }

  // A variable, which becomes a parameter.
  Tensor Float(const std::string& name, const Shape& shape) {
    const Tensor x = Variable(
        graph_, name, RandomUniform(graph_, shape, -1, 1, {.per_step = false}));
    parameters_.push_back(x);
    return x;
  }

  // Pads explicitly with up to two elements on each side, or with so many that
  // a window of `span` elements fits into a dimension of `size`.
  void PadExplicitly(int64_t size, int64_t span, WindowOptions& options) {
    options.padding = WindowPadding::kExplicit;
    options.before = Int(0, 2);
    options.after = Int(0, 2);
    if (span > size + options.before + options.after) options.after += span;
  }

  // Fetches `loss`, a weighted sum of `y`, if `fetch_loss`, and the gradients
  // of all parameters; updates one parameter and the tracked averages.
  void AddLoss(Tensor y, bool fetch_loss) {
    std::vector<double> numbers(y.shape().num_elements());
    for (double& number : numbers) number = Int(-8, 8) / 8.0;
    program_.feeds["weights"] =
        HostTensor::FromDoubles(y.shape(), kFloat32, numbers);
    const Tensor loss =
        ReduceSum(y * Input(graph_, "weights", kFloat32, y.shape()), {});
    if (fetch_loss) program_.fetches.push_back(loss);
    for (const Tensor& gradient : Gradients(loss, parameters_)) {
      if (gradient.valid()) program_.fetches.push_back(gradient);
    }
    program_.updates = {Assign(parameters_[0], parameters_[0] * 0.5)};
    for (const AverageUpdate& each : AverageUpdates(loss)) {
      program_.fetches.push_back(each.next);
      program_.updates.push_back(Assign(each.average, each.next));
    }
    MTF_CHECK(graph_.status().ok()) << graph_.status().ToString();
  }

  std::mt19937_64 random_;
  RandomProgram& program_;
  Graph& graph_;
  std::vector<Tensor> parameters_;
};

}  // namespace mtf::testing

#endif  // TESTS_PROPERTIES_IMAGE_MAKER_H_
