// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/error.hpp"

#include "cli/records.hpp"

namespace cairn::cli {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path) {
  throw Error(
      Errc::feature_missing,
      path.string() +
          ": the tool was built without files of records: HighwayHash (libhighwayhash-dev) was not there");
}

}  // namespace

int inspect_records(const Arguments& arguments, Output& /*out*/) {
  refuse(arguments.path);
}

store::VerifyReport verify_records(const std::filesystem::path& path,
                                   const std::function<void(std::uint64_t)>& /*progress*/) {
  refuse(path);
}

std::uint64_t export_records(const std::filesystem::path& source, const std::filesystem::path& /*target*/) {
  refuse(source);
}

void export_chunks(const ItemMetadata& /*item*/, const MessageChunks& /*message*/,
                   tools::VerifiedFile& /*file*/, const std::filesystem::path& target) {
  refuse(target);
}

}  // namespace cairn::cli
