// SPDX-License-Identifier: Apache-2.0
#include "tools/train/picture_data.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/data/record_batches.h"
#include "train/data/rows/picture_rows.h"
#include "train/data/sources/mapped_file.h"
#include "train/data/sources/picture_arrays.h"
#include "train/data/sources/picture_folder.h"
#include "train/data/sources/record_order.h"

namespace mtf::tools {
namespace {

constexpr int64_t kCifarClasses = 10;
constexpr char kForms[] =
    "name a folder with a folder of PNG files for each class, files *.bin of "
    "CIFAR-10, or two files of MNIST: pictures, classes";

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

train::PictureSize SizeOf(const TrainedModel& model) {
  const Shape& shape = model.inputs.shape();
  return {shape[1].size, shape[2].size, shape[3].size};
}

std::string SizeText(const train::PictureSize& size) {
  return absl::StrCat(size.height, " x ", size.width, " x ", size.channels);
}

absl::Status CheckClasses(const std::string& names, int64_t classes,
                          const TrainedModel& model) {
  const int64_t known = model.logits.dim("classes").size;
  if (classes == known) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the pictures ", Quoted(names), " have ", classes,
      " classes, but the model has ", known,
      DetailLine("help", absl::StrCat("set \"num_labels\": ", classes,
                                      " in --config, or name other data"))));
}

absl::StatusOr<std::shared_ptr<const train::RecordSource>> OpenFolder(
    const std::string& folder, const TrainedModel& model) {
  MTF_ASSIGN_OR_RETURN(const auto pictures,
                       train::PictureFolder::Open(folder, SizeOf(model)));
  MTF_RETURN_IF_ERROR(CheckClasses(
      folder, static_cast<int64_t>(pictures->classes().size()), model));
  // Pictures of another size are most likely all of this size: an error before
  // the first step.
  const absl::Status first = pictures->Read(0).status();
  if (!first.ok()) {
    return absl::Status(
        first.code(),
        absl::StrCat(first.message(), "\n  model    pictures of ",
                     SizeText(SizeOf(model)),
                     DetailLine("help",
                                "scale the pictures, or give --image_size of "
                                "a ResNet, or another --config")));
  }
  return pictures;
}

absl::StatusOr<std::shared_ptr<const train::RecordSource>> OpenArrays(
    const std::string& names, const TrainedModel& model) {
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                       train::DataFiles(names));
  std::shared_ptr<const train::PictureArrays> pictures;
  if (std::all_of(paths.begin(), paths.end(), [](const std::string& path) {
        return absl::EndsWith(path, ".bin");
      })) {
    MTF_RETURN_IF_ERROR(CheckClasses(names, kCifarClasses, model));
    MTF_ASSIGN_OR_RETURN(pictures, train::OpenCifar10(paths));
  } else if (paths.size() == 2) {
    MTF_ASSIGN_OR_RETURN(
        pictures, train::OpenIdxPictures(paths[0], paths[1],
                                         model.logits.dim("classes").size));
  } else if (std::error_code error; !std::filesystem::exists(names, error)) {
    return absl::NotFoundError(absl::StrCat(
        "there are no pictures ", Quoted(names), DetailLine("help", kForms)));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(names), " is ",
                     Plural(static_cast<int64_t>(paths.size()), "file"),
                     ", which are no pictures", DetailLine("help", kForms)));
  }
  const train::PictureSize given = pictures->picture_size(),
                           wanted = SizeOf(model);
  if (SizeText(given) == SizeText(wanted)) return pictures;
  return absl::InvalidArgumentError(absl::StrCat(
      "the pictures ", Quoted(names), " are ", SizeText(given),
      ", but the model reads ", SizeText(wanted),
      DetailLine("help",
                 "give --image_size of a ResNet, or \"image_size\" and "
                 "\"num_channels\" in --config")));
}

absl::StatusOr<std::shared_ptr<const train::BatchSource>> Batches(
    const std::string& names, const TrainedModel& model,
    const train::EpochOrderOptions& order_options, bool once) {
  std::shared_ptr<const train::RecordSource> pictures;
  if (IsFolder(names)) {
    MTF_ASSIGN_OR_RETURN(pictures, OpenFolder(names, model));
  } else {
    MTF_ASSIGN_OR_RETURN(pictures, OpenArrays(names, model));
  }
  MTF_ASSIGN_OR_RETURN(const auto order,
                       train::EpochOrder(pictures, order_options));
  const Shape& shape = model.inputs.shape();
  MTF_ASSIGN_OR_RETURN(const auto rows,
                       train::PictureRows::Create({.height = shape[1],
                                                   .width = shape[2],
                                                   .channels = shape[3],
                                                   .mean = model.mean,
                                                   .stddev = model.stddev,
                                                   .weights = once}));
  return train::RecordBatches::Create(order, rows,
                                      {.batch = shape[0], .once = once});
}

// The names of the classes, for pictures of any size.
absl::StatusOr<std::vector<std::string>> ClassesIn(const std::string& folder) {
  MTF_ASSIGN_OR_RETURN(const auto pictures,
                       train::PictureFolder::Open(folder, {1, 1, 3}));
  return pictures->classes();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const train::BatchSource>> TrainingPictures(
    const std::string& names, const TrainedModel& model, uint32_t seed) {
  return Batches(names, model, {.seed = seed}, /*once=*/false);
}

absl::StatusOr<std::shared_ptr<const train::BatchSource>> HeldOutPictures(
    const std::string& names, const TrainedModel& model) {
  return Batches(names, model, {.shuffle = false}, /*once=*/true);
}

absl::Status CheckSameClasses(const std::string& data,
                              const std::string& held_out) {
  if (!IsFolder(data) || !IsFolder(held_out)) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> trained, ClassesIn(data));
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> evaluated,
                       ClassesIn(held_out));
  // Their numbers are checked by themselves.
  for (size_t i = 0; i < std::min(trained.size(), evaluated.size()); ++i) {
    if (trained[i] == evaluated[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "class ", i, " is ", Quoted(trained[i]), " in --data=", data, ", but ",
        Quoted(evaluated[i]), " in --eval_data=", held_out,
        DetailLine("help", "give the folders of both the same names")));
  }
  return absl::OkStatus();
}

}  // namespace mtf::tools
