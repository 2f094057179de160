--- Makes what ponder embeds of its own comments and tables: the reference, the topics of `ponder
--- help`, the stubs, what shells complete, and the manual page. The Makefile runs it with a ponder
--- that lacks them:
---
---     ponder run --no-log scripts/reference/main.lua DIRECTORY PATH...

local args = require "ponder.args"
local cli = require "ponder.cli.shared.main"
local json = require "ponder.json"
local man = require "man"
local pages = require "pages"
local stubs = require "stubs"

local directory, paths = ..., { select(2, ...) }

local function write(name, text)
    local file <close> = assert(io.open(directory .. "/" .. name, "w"))
    assert(file:write(text))
end

local function roles(command)
    local ok, library = pcall(require, "ponder.strategy." .. command)
    local words = {}
    for i, role in ipairs(ok and library.roles and library.roles() or {}) do
        words[i] = role .. "="
    end
    return words
end

local modules = pages.modules(paths)
local reference = pages.reference(modules)
reference.topics = {}
for _, topic in ipairs(require("ponder.cli.help").words) do
    local file <close> = assert(io.open(("docs/%s.md"):format(topic)))
    reference.topics[topic] = pages.text(file:read("a"))
end
write("reference.json", json.encode(pages.intern(reference)))
write("stubs.json", json.encode(stubs(modules)))

local commands, completion = {}, {}
for i, name in ipairs(cli.names()) do
    local command = require("ponder.cli." .. name)
    commands[i] = { name = name, about = command.about, rules = command.rules or {},
        sections = cli.sections(name) }
    local flags = {}
    for option, rule in pairs(command.rules or {}) do
        flags[args.flag(option)] = { about = rule.help or "", files = rule.files,
            needs_value = rule.value and rule.implied == nil,
            values = rule.enum or option == "models" and roles(name) or nil }
    end
    local words = command.words or {}
    if name == "doc" then
        words = {}
        for _, word in ipairs(reference.names) do
            words[#words + 1] = word:find("^%l[%w_.]*$") and word or nil
        end
    end
    completion[name] = { summary = command.summary, words = words, files = command.files,
        flags = flags }
end
write("completion.json", json.encode(completion))
write("ponder.1", man(commands))
