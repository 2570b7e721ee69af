// SPDX-License-Identifier: Apache-2.0
// What a handler is given, without a save: SaveContext and FileStream on a host that only notes what it is told.
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/contract/file_stream.hpp"
#include "cairn/contract/save_context.hpp"

#include "contract/test_backends.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

class Contexts : public ::testing::Test {
 protected:
  [[nodiscard]] SaveContext context() const { return {save_, "item", "item"}; }

  void run(Awaitable<> task) const { save_->plane.run(std::move(task)); }

  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream file(directory_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  testing::TempDir directory_;
  std::shared_ptr<contract::TestSave> save_ = std::make_shared<contract::TestSave>(directory_.path());
};

std::string pattern(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>('a' + i % 23);
  }
  return text;
}

/// Writes a text in pieces of that size.
Background<> stream(FileStream file, std::string text, std::size_t step) {
  for (std::size_t at = 0; at < text.size(); at += step) {
    co_await file.write(std::string_view(text).substr(at, step));
  }
  co_await file.finish();
}

TEST_F(Contexts, WriteAStreamInPiecesOfAnySize) {
  const std::string text = pattern((std::size_t{2} << 20) + 12345);
  for (const std::size_t step : {std::size_t{777}, std::size_t{1} << 20, std::size_t{3} << 20}) {
    const std::string name = "log." + std::to_string(step);
    run(stream(context().stream_file(name), text, step));

    EXPECT_EQ(content("item/" + name), text);
    io::ChunkHasher whole;
    whole.update(std::as_bytes(std::span(text)));
    EXPECT_EQ(save_->digests.at("item/" + name).root(), whole.finish("").root());
  }
  EXPECT_EQ(save_->total_bytes, 3 * text.size());
  EXPECT_TRUE(save_->plane.is_unused());
}

TEST_F(Contexts, WriteAStreamThatIsEmpty) {
  run(stream(context().stream_file("empty"), "", 1));

  EXPECT_EQ(content("item/empty"), "");
  EXPECT_EQ(save_->digests.at("item/empty").size_bytes, 0u);
}

TEST_F(Contexts, DoNotEnterAStreamThatWasNotFinished) {
  {
    const FileStream file = context().stream_file("half");
    run(file.write("half"));
  }
  EXPECT_THAT(save_->claimed, ElementsAre("item/half"));
  EXPECT_TRUE(save_->digests.empty());
}

TEST_F(Contexts, RefuseToWriteToAStreamAfterItsEnd) {
  const FileStream file = context().stream_file("log");
  run(file.finish());

  EXPECT_THAT([&] { run(file.write("late")); }, Fails(Errc::closed, HasSubstr("item/log")));
  EXPECT_THAT([&] { run(file.finish()); }, Fails(Errc::closed));
}

TEST_F(Contexts, RefuseToWriteToAStreamAfterAnError) {
  const FileStream file = context().stream_file("log");
  save_->plane.engine.error_of = [](const io::Request& request) {
    return request.operation == io::Operation::write ? ENOSPC : 0;
  };
  EXPECT_THAT([&] { run(file.write(pattern(std::size_t{2} << 20))); },
              testing::FailsWithErrno(ENOSPC, HasSubstr("log")));
  save_->plane.engine.error_of = nullptr;

  EXPECT_THAT([&] { run(file.finish()); }, Fails(Errc::closed));
  EXPECT_TRUE(save_->digests.empty());
}

TEST_F(Contexts, RefuseNamesThatAreNotBelowTheirDirectory) {
  for (const char* name : {"", "/etc/x", "../x", "a/../x", "a//b", "a/", "./a"}) {
    EXPECT_THAT([&] { static_cast<void>(context().write_file(name, std::string("text"))); },
                Fails(Errc::invalid_argument))
        << name;
    EXPECT_THAT([&] { static_cast<void>(context().stream_file(name)); }, Fails(Errc::invalid_argument))
        << name;
  }
  EXPECT_TRUE(save_->claimed.empty());
}

TEST_F(Contexts, RefuseNamesThatLieTooDeep) {
  std::string name;
  for (int i = 0; i < 101; ++i) {
    name += "d/";
  }
  EXPECT_THAT([&] { static_cast<void>(context().write_file(name + "file", std::string("text"))); },
              Fails(Errc::invalid_argument, HasSubstr("100 directories")));
}

TEST_F(Contexts, RunFunctionsThatHaveAName) {
  int calls = 0;
  const std::string captured = "owned";
  const auto named = [&calls, captured] { calls += static_cast<int>(captured.size()); };
  run(context().run(named));
  run(context().run([&calls] { ++calls; }));  // Owns nothing.
  run(context().run(std::function<void()>([&calls, captured] { ++calls; })));

  EXPECT_EQ(calls, 7);
}

}  // namespace
}  // namespace cairn
