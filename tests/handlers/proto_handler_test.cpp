// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/util/message_differencer.h>

#include "cairn/handlers/proto.hpp"
#include "cairn/testing/handler_conformance.hpp"

#include "core/internal/start.hpp"
#include "handlers/store.hpp"
#include "messages.pb.h"

namespace cairn {
namespace {

using google::protobuf::util::MessageDifferencer;
using test::Other;
using test::Settings;
using testing::Fails;
using ::testing::HasSubstr;
using testing::read_text;

Settings make_settings() {
  Settings settings;
  settings.set_name("run");
  settings.set_rate(0.5);
  for (int i = 0; i < 20; ++i) {
    (*settings.mutable_limits())["k" + std::to_string(i)] = i;
  }
  settings.add_children()->set_name("child");
  return settings;
}

struct ProtoTraits {
  using Handler = ProtoHandler;
  using Subject = Settings;

  static Settings make() { return make_settings(); }
  static void change(Settings& settings) { settings.set_name("other"); }
  static bool equal(const Settings& a, const Settings& b) { return MessageDifferencer::Equals(a, b); }
  static Request wrong(std::string name) { return {std::move(name), abstract_message<Other>()}; }
};

/// Writes files as ProtoHandler would not.
class RawMessage final : public CheckpointableHandler<std::pair<std::string, std::string>> {
 public:
  using Files = std::pair<std::string, std::string>;

  std::string_view id() const noexcept override { return "cairn.proto/1"; }
  // outlives: used before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const Files& files) const override {
    co_return both(context.write_file("type.txt", files.first),
                   context.write_file("message.binpb", files.second));
  }
  Awaitable<Background<Files>> load(LoadContext, std::optional<Files>) const override { co_return nothing(); }
  Awaitable<Files> metadata(LoadContext) const override { co_return Files(); }

 private:
  static Background<> both(Background<> first, Background<> second) {
    co_await std::move(first);
    co_await std::move(second);
  }
  static Background<Files> nothing() { co_return Files(); }
};

class ProtoHandlerTest : public testing::StoreTest {
 protected:
  ProtoHandlerTest() { handlers_ = proto_handlers(); }

  static SaveOptions overwriting() {
    SaveOptions options;
    options.overwrite = true;
    return options;
  }

  Settings load_raw(std::string type, std::string binary) {
    const RawMessage::Files files(std::move(type), std::move(binary));
    core::start_save(path(), Checkpointables{{"item", files}}, HandlerRegistry().add<RawMessage>().snapshot(),
                     SaveOptions(), context_)
        .wait();
    return load<Settings>();
  }
};

TEST_F(ProtoHandlerTest, RecordsTheFullTypeName) {
  save(make_settings());

  EXPECT_EQ(read_text(item("type.txt")), "cairn.test.Settings\n");
  EXPECT_EQ(metadata<AbstractProto>().full_name(), "cairn.test.Settings");
  EXPECT_EQ(item_metadata().description().kind, "protobuf message cairn.test.Settings");
}

TEST_F(ProtoHandlerTest, WritesATextForPeople) {
  save(make_settings());
  EXPECT_THAT(read_text(item("message.txtpb")), HasSubstr("name: \"run\""));
}

TEST_F(ProtoHandlerTest, LeavesOutTheTextOfALargeMessage) {
  Settings settings = make_settings();
  settings.set_name(std::string(2 << 20, 'x'));
  save(settings);

  EXPECT_FALSE(std::filesystem::exists(item("message.txtpb")));
  EXPECT_EQ(load<Settings>().name().size(), 2U << 20);
}

TEST_F(ProtoHandlerTest, LoadsADynamicMessageByItsDescriptor) {
  save(make_settings());

  const auto message = load<ProtoMessage>({"item", AbstractProto(*Settings::descriptor())});

  EXPECT_EQ(message.get().GetTypeName(), "cairn.test.Settings");
  EXPECT_THAT(message.get().ShortDebugString(), HasSubstr("name: \"run\""));
}

TEST_F(ProtoHandlerTest, RefusesAnotherTypeThanWanted) {
  save(make_settings());
  EXPECT_THAT(
      [&] {
        load<ProtoMessage>({"item", abstract_message<Other>()});
      },
      Fails(Errc::type_mismatch, HasSubstr("stored is a message of type cairn.test.Settings")));
}

TEST_F(ProtoHandlerTest, RefusesToTakeAnotherClass) {
  save(make_settings());
  EXPECT_THAT([&] { load<Other>(); }, Fails(Errc::type_mismatch, HasSubstr("cairn.test.Other")));
}

TEST_F(ProtoHandlerTest, RefusesMissingRequiredFields) {
  EXPECT_THAT([&] { save(Settings()); }, Fails(Errc::invalid_argument, HasSubstr("name")));
}

TEST_F(ProtoHandlerTest, NamesATypeThatTheProgramDoesNotHave) {
  EXPECT_THAT([&] { load_raw("some.Type\n", ""); }, Fails(Errc::not_found, HasSubstr("some.Type")));
}

TEST_F(ProtoHandlerTest, RefusesATypeFileThatIsNoName) {
  EXPECT_THAT([&] { load_raw("a\nb\n", ""); }, Fails(Errc::malformed_metadata, HasSubstr("type.txt")));
}

TEST_F(ProtoHandlerTest, RefusesATypeFileWithoutBytes) {
  EXPECT_THAT([&] { load_raw("", ""); }, Fails(Errc::malformed_metadata, HasSubstr("type.txt")));
}

TEST_F(ProtoHandlerTest, RefusesBytesThatAreNoMessage) {
  EXPECT_THAT([&] { load_raw("cairn.test.Settings\n", "\xff\xff"); },
              Fails(Errc::malformed_metadata, HasSubstr("message.binpb")));
}

TEST_F(ProtoHandlerTest, RefusesBytesThatLackRequiredFields) {
  EXPECT_THAT([&] { load_raw("cairn.test.Settings\n", ""); },
              Fails(Errc::malformed_metadata, HasSubstr("name")));
}

TEST_F(ProtoHandlerTest, RefusesADepthOfTenThousand) {
  std::string nested;
  for (int i = 0; i < 10'000; ++i) {
    nested += "\x23";  // The start of a group: nests without a length.
  }
  EXPECT_THAT([&] { load_raw("cairn.test.Settings\n", nested); }, Fails(Errc::malformed_metadata));
}

/// A message that holds another, that holds another, …
Settings chain(int levels) {
  Settings settings;
  Settings* last = &settings;
  last->set_name("0");
  for (int i = 0; i < levels; ++i) {
    last = last->add_children();
    last->set_name("x");
  }
  return settings;
}

TEST_F(ProtoHandlerTest, LoadsTheDeepestMessageThatItSaves) {
  const Settings settings = chain(1000);

  save(settings);

  EXPECT_EQ(load<Settings>().SerializeAsString(), settings.SerializeAsString());
}

TEST_F(ProtoHandlerTest, RefusesToSaveAMessageThatIsTooDeepToLoad) {
  EXPECT_THAT(
      [&] { save(chain(1001)); },
      Fails(Errc::invalid_argument, HasSubstr("messages lie in each other more than 1000 levels deep")));
}

TEST_F(ProtoHandlerTest, CountsTheLevelsOfMapsAsItsReaderDoes) {
  for (int values = 330; values < 337; ++values) {
    google::protobuf::Value value;
    google::protobuf::Value* last = &value;
    for (int i = 0; i < values; ++i) {  // Three levels each: the Struct, the entry, its value.
      last = &(*last->mutable_struct_value()->mutable_fields())["x"];
    }
    last->set_bool_value(true);
    if (3 * values <= 1000) {
      save(value, overwriting());
      EXPECT_EQ(load<google::protobuf::Value>().SerializeAsString(), value.SerializeAsString()) << values;
    } else {
      EXPECT_THAT([&] { save(value, overwriting()); }, Fails(Errc::invalid_argument)) << values;
    }
  }
}

TEST_F(ProtoHandlerTest, CountsTheLevelsOfUnknownGroupsAsItsReaderDoes) {
  for (int levels = 997; levels < 1004; ++levels) {
    Settings settings = chain(1);
    auto* unknown = settings.GetReflection()->MutableUnknownFields(&settings);
    for (int i = 0; i < levels; ++i) {
      unknown = unknown->AddGroup(9);
    }
    unknown->AddFixed32(9, 1);
    unknown->AddFixed64(9, 1);
    unknown->AddVarint(9, 1);
    unknown->AddLengthDelimited(9, "x");
    if (levels <= 1000) {
      save(settings, overwriting());
      EXPECT_EQ(load<Settings>().SerializeAsString(), settings.SerializeAsString()) << levels;
    } else {
      EXPECT_THAT([&] { save(settings, overwriting()); }, Fails(Errc::invalid_argument)) << levels;
    }
  }
}

}  // namespace

namespace testing {
INSTANTIATE_TYPED_TEST_SUITE_P(Proto, HandlerConformance, ProtoTraits);
}  // namespace testing

}  // namespace cairn
