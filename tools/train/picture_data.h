// SPDX-License-Identifier: Apache-2.0
//
// The pictures that mtf train and mtf eval read.
#ifndef TOOLS_TRAIN_PICTURE_DATA_H_
#define TOOLS_TRAIN_PICTURE_DATA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/train/trained_model.h"
#include "train/data/batch_source.h"

namespace mtf::tools {

// Pictures for the classifier `model`: a folder with a folder of PNG files for
// each class, files *.bin of CIFAR-10, or two files of MNIST (IDX), the
// pictures and their classes. Each is read once in an epoch, in an order that
// depends on the seed.
//
// kInvalidArgument, with both numbers, if the classes or the size of the
// pictures are not those of the model; otherwise the errors of the files.
absl::StatusOr<std::shared_ptr<const train::BatchSource>> TrainingPictures(
    const std::string& names, const TrainedModel& model, uint32_t seed);

// The same pictures once, in the order of the files, with weights: 0 in rows
// that fill up the last batch.
absl::StatusOr<std::shared_ptr<const train::BatchSource>> HeldOutPictures(
    const std::string& names, const TrainedModel& model);

// kInvalidArgument if two folders of pictures name their classes differently,
// which gives them other numbers. OK for files.
absl::Status CheckSameClasses(const std::string& data,
                              const std::string& held_out);

}  // namespace mtf::tools

#endif  // TOOLS_TRAIN_PICTURE_DATA_H_
