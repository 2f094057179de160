-- What ponder.tot, ponder.got and ponder.trm share.

local linear = require "linear"
local json = require "ponder.json"
local raises = require "raises"
local shell = require "shell"

local CASES = {
    { name = "tot", text = "1. a\n2. b", prompt = "prompt", option = "max_depth",
        role = "generate" },
    { name = "got", text = "a thought", prompt = "prompt", option = "max_depth",
        role = "generate" },
    { name = "trm", text = "an answer", prompt = "question", option = "max_supervision_steps",
        role = "reason" },
}

--- The type of a text reply: one name for all but trm, which names each phase.
local TEXT_REPLIES = {
    reasoning = "reasoning_result", supervising = "supervision_result",
    improving = "improvement_result",
}
local function reply_type(machine)
    return TEXT_REPLIES[machine.status] or "llm_result"
end

--- The rows of a table in a comment whose first three columns are from, to and on.
local function documented(text)
    local moves, seen = {}, {}
    for from, to, on in text:gmatch("%-%-%- |%s*(%a+)%s*|%s*(%a+)%s*|%s*([%w_ ]-)%s*|") do
        local move = ("%s -> %s on %s"):format(from, to, on)
        if from ~= "from" and not seen[move] then
            seen[move] = true
            moves[#moves + 1] = move
        end
    end
    table.sort(moves)
    return moves
end

for _, case in ipairs(CASES) do
    local library = require("ponder." .. case.name)

    local function start(opts, env)
        local machine = library.new(opts)
        local directives, events = machine:update(
            { type = "start", prompt = "what?", call_id = "c0" }, env or { now_ms = 100 })
        return machine, directives, events
    end

    describe("ponder." .. case.name .. " as a machine", function()
        it("starts, once", function()
            local machine, directives, events = start()
            assert.is_true(#directives >= 1)
            assert.equal("c0", directives[1].call_id)
            assert.equal("c0", machine.current_call_id)
            assert.equal("what?", machine[case.prompt])
            assert.equal(100, machine.started_at)
            assert.equal(case.name .. ".start", events[1].name)
            local status = machine.status
            assert.same({ { type = "request_error", call_id = "b", reason = "busy",
                message = ("Agent is busy (status: %s)"):format(status) } },
                (machine:update { type = "start", prompt = "x", call_id = "b" }))
            assert.equal("what?", machine[case.prompt])
            machine:update { type = reply_type(machine), call_id = "c0", ok = false, reason = "x" }
            assert.equal("finished",
                machine:update({ type = "start", prompt = "x", call_id = "b" })[1].reason)
        end)

        it("gives the same ids for the same messages", function()
            local function ids()
                local machine, directives = start()
                local list = {}
                for _ = 1, 4 do
                    local all = {}
                    for _, directive in ipairs(directives) do
                        local more = machine:update { type = reply_type(machine), ok = true,
                            call_id = directive.call_id, text = case.text }
                        table.move(more, 1, #more, #all + 1, all)
                        list[#list + 1] = directive.call_id
                    end
                    directives = all
                end
                return table.concat(list, " ")
            end
            assert.equal(ids(), ids())
        end)

        it("makes ids that differ from the one it was given", function()
            for _, given in ipairs { "c1", "c2", "c01", "C1", "", "c1\0" } do
                local machine = library.new()
                local open = machine:update { type = "start", prompt = "x", call_id = given }
                local seen = {}
                for _ = 1, 6 do
                    local directive = table.remove(open, 1)
                    assert.is_nil(seen[directive.call_id])
                    seen[directive.call_id] = true
                    for _, more in ipairs((machine:update { type = reply_type(machine), ok = true,
                        call_id = directive.call_id, text = case.text })) do
                        open[#open + 1] = more
                    end
                    if #open == 0 then break end
                end
                assert.is_true(seen[given])
                assert.same({}, (machine:update { type = reply_type(machine), ok = true,
                    call_id = given, text = case.text }))
            end
        end)

        it("is not changed by messages out of place", function()
            local machine = start()
            local before = json.encode(machine:to_map())
            for _, msg in ipairs {
                {}, { type = "x" }, { type = 5 }, { type = "llm_result", ok = true, text = "x" },
                { type = "llm_result", ok = true, text = "x", call_id = "zzz" },
                { type = "llm_result", ok = true, text = "x", call_id = 0 },
                { type = "llm_result", ok = false, reason = "x", call_id = "c9" },
                { type = "llm_partial", call_id = "zzz", delta = "x", chunk_type = "content" },
                { type = "llm_partial", call_id = "c0", delta = 5, chunk_type = "content" },
                { type = "llm_partial", call_id = "c0", delta = "x", chunk_type = "thinking" },
                { type = "start", prompt = "x" },
            } do
                local directives, events = machine:update(msg)
                assert.same({}, directives)
                assert.same({}, events)
            end
            assert.equal(before, json.encode(machine:to_map()))
        end)

        it("refuses what is not a message", function()
            local machine = library.new()
            raises(case.name .. ".update: msg must be a table (got 5)", machine.update, machine, 5)
            raises("env must be a table", machine.update, machine, { type = "start" }, 5)
            raises("env.now_ms must be a finite number", machine.update, machine, {},
                { now_ms = "x" })
            raises("env.now_ms must be a finite number", machine.update, machine, {},
                { now_ms = 0 / 0 })
            raises("msg.prompt must be a string", machine.update, machine,
                { type = "start", call_id = "c0" })
            machine = start()
            raises("msg.text must be a string", machine.update, machine,
                { type = reply_type(machine), call_id = "c0", ok = true, text = 5 })
            raises("msg.ok must be a boolean", machine.update, machine,
                { type = reply_type(machine), call_id = "c0", text = "x" })
            raises("with a colon, on a machine", machine.update, {}, {})
            assert.has_error(function() machine.status = "completed" end)
            assert.has_error(function() library.new { [case.option] = "x" } end)
            assert.has_error(function() library.new { ["x" .. case.option] = 1 } end)
        end)

        it("joins chunks if there is no text", function()
            for _, text in ipairs { false, "" } do
                local machine = start()
                assert.equal("", machine.streaming_text)
                for _, delta in ipairs { "1. ", "a", "\n2. b" } do
                    machine:update { type = "llm_partial", call_id = "c0", delta = delta,
                        chunk_type = "content" }
                end
                machine:update { type = "llm_partial", call_id = "c0", delta = "hm",
                    chunk_type = "thinking" }
                assert.equal("1. a\n2. b", machine.streaming_text)
                local copy = library.from_map(json.decode(json.encode(machine:to_map())))
                assert.equal("1. a\n2. b", copy.streaming_text)
                local msg = { type = reply_type(machine), call_id = "c0", ok = true,
                    text = text or nil }
                machine:update(msg)
                copy:update(msg)
                assert.equal("", machine.streaming_text)
                local whole = start()
                whole:update { type = reply_type(whole), call_id = "c0", ok = true,
                    text = "1. a\n2. b" }
                assert.equal(whole.status, machine.status)
                assert.equal(whole.status, copy.status)
            end
        end)

        it("joins ten thousand chunks quickly", function()
            local machine = start()
            linear(function()
                for _ = 1, 10000 do
                    machine:update { type = "llm_partial", call_id = "c0", delta = ("x"):rep(100),
                        chunk_type = "content" }
                end
            end)
            assert.equal(1000000, #machine.streaming_text)
        end)

        it("adds up usage of any kind", function()
            local machine, directives = start()
            local usage = { input_tokens = 10, output_tokens = 2, cache_read_tokens = 3, cost = 0.5,
                model = "x", bad = 0 / 0, negative = -1, details = {} }
            local more = machine:update { type = reply_type(machine),
                call_id = directives[1].call_id,
                ok = true, text = case.text, usage = usage }
            local next_call = (more[1] or directives[2]).call_id
            machine:update { type = reply_type(machine),
                call_id = next_call, ok = false, reason = "x",
                usage = usage }
            assert.same({ input_tokens = 20, output_tokens = 4, cache_read_tokens = 6, cost = 1.0 },
                machine.usage)
            machine.usage.input_tokens = 0
            assert.equal(20, machine.usage.input_tokens)
        end)

        it("fails with one safe line", function()
            for _, reason in ipairs {
                "timeout", "a\r\nb\0c\x1b[31m", "\xFF\xFE", ("é"):rep(5000), { message = "m\n" },
                {}, { message = {} }, 5, true, false, "", "\u{85}\u{2028}",
            } do
                local machine = start()
                local directives, events = machine:update { type = reply_type(machine),
                    call_id = "c0",
                    ok = false, reason = reason }
                assert.same({}, directives)
                assert.equal("error", machine.status)
                assert.equal("error", machine.termination_reason)
                assert.equal("c0", machine.current_call_id)
                local line = events[1].metadata.error
                assert.equal(case.name .. ".error", events[1].name)
                assert.truthy(utf8.len(line))
                assert.is_true(#line > 0 and #line <= 200)
                assert.is_nil(line:find("%c"))
            end
        end)

        it("can be saved and loaded in every state, and cloned", function()
            local machine = library.new()
            for _ = 1, 4 do
                local text = json.encode(machine:to_map())
                assert.equal(text, json.encode(library.from_map(json.decode(text)):to_map()))
                assert.equal(text, json.encode(machine:clone():to_map()))
                local call_id = machine.current_call_id or "c0"
                machine:clone():update { type = "llm_result", call_id = call_id, ok = false }
                assert.equal(text, json.encode(machine:to_map()))
                machine:update({ type = "start", prompt = "x", call_id = "c0" }, { now_ms = 0.5 })
                machine:update { type = reply_type(machine), call_id = call_id, ok = true,
                    text = case.text, usage = { input_tokens = 1 } }
            end
        end)

        it("has clones that use its prompts, even inherited ones", function()
            local prompts = setmetatable({}, { __index = function() return "Be brief." end })
            local machine = library.new { prompts = prompts }:clone()
            local directives = machine:update { type = "start", prompt = "x", call_id = "c0" }
            assert.matches("Be brief%.", json.encode(directives[1].context))
        end)

        it("takes functions and other options when it is loaded", function()
            local function own() return { { role = "user", content = "own" } } end
            local made = library.new { prompts = { [case.role] = own } }
            local map = json.decode(json.encode(made:to_map())) -- without the function
            local opts = { [case.option] = 7, prompts = { [case.role] = own } }
            local machine = library.from_map(map, opts)
            local directives = machine:update { type = "start", prompt = "x", call_id = "c0" }
            assert.same({ "own", 7 }, { directives[1].context[1].content, machine[case.option] })
            raises("unknown option", library.from_map, map, { ["x" .. case.option] = 7 })
        end)

        it("refuses what to_map did not give", function()
            local map = json.decode(json.encode(start():to_map()))
            raises(".from_map: map must be a table", library.from_map, 5)
            for field, bad in pairs { machine = "x", state = 5, [case.option] = "x" } do
                local copy = json.decode(json.encode(map))
                copy[field] = bad
                raises(field, library.from_map, copy)
            end
            local copy = json.decode(json.encode(map))
            copy.state.open = nil
            raises(".from_map: map.state must be what to_map gave: it lacks open", library.from_map,
                copy)
            map.state.status = "flying"
            raises("it has an unknown status", library.from_map, map)
        end)

        it("uses the clock of env, or else the host's", function()
            local machine = library.new()
            machine:update { type = "start", prompt = "x", call_id = "c0" }
            assert.is_true(machine.started_at >= 0)
        end)

        it("names what to use in place of what is gone", function()
            local gone = { tot = "best_answer", got = "status", trm = "extract_confidence" }
            raises(("%s.%s is gone: use machine."):format(case.name, gone[case.name]), function()
                library[gone[case.name]] {}
            end)
            assert.is_nil(library.nothing)
        end)

        it("has ids that are unique in the process", function()
            assert.not_equal(library.generate_call_id(), library.generate_call_id())
        end)
    end)
end

it("ponder.got has the transitions that its documentation lists", function()
    local moves = {}
    for _, move in ipairs(require("ponder.got").transitions) do
        moves[#moves + 1] = move.to ~= "error"
            and ("%s -> %s on %s"):format(move.from, move.to, move.on) or nil
    end
    table.sort(moves)
    assert.same(moves, documented(shell.read "lua/ponder/got.lua"))
end)
