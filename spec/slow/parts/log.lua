-- A log of 1,000,000 calls: the memory that it takes to write, show, compare, replay and resume it;
-- and the time of a replayed call, compared with one in a log a hundredth the size.

local BESIDE_KIB = 192 << 10 -- of a command, in addition to the script's own
local BYTES_A_CALL = 100 -- of a run: it counts how often each was asked
local SLOWER = 1.5

local SCRIPT = [[
local model, task = require "ponder.model", require "ponder.task"
local m, size, sum, last = model.open "script:model.lua", tonumber(arg[1]), 0, 0
local function work()
    while last < size do
        last = last + 1
        local question = { role = "user", content = "question " .. last }
        local reply = assert(m:chat { messages = { question } })
        sum = sum + #reply.text
    end
end
local workers = {}
for i = 1, 64 do workers[i] = task.spawn(work) end
for _, worker in ipairs(workers) do worker:join() end
assert(not io.open "stops", "it stops here")
print(sum)
]]

local MODEL = [[
return function(request)
    return { text = "answer to " .. request.messages[1].content, usage = { input_tokens = 10,
        output_tokens = 5 } }
end
]]

local function small(s)
    return math.max(s.size // 100, 200)
end

-- Compares with the memory of a run without a log.
local function report_memory(s, what, run)
    s:report(what .. ": memory besides the script's own", run.peak_kib - s.keep.own_kib, "<=",
        BESIDE_KIB, "KiB")
end

local function write_both(s)
    local own = s:run { "run", "--no-log", "script.lua", s.size }
    s.keep.own_kib, s.keep.sum = own.peak_kib, tonumber(own.out)
    local few = s:run { "run", "--log", "few.db", "script.lua", small(s) }
    local tenth = s:run { "run", "--log", "tenth.db", "script.lua", s.size // 10 }
    s:write("stops", "")
    local all = s:ponder { "run", "--log", "all.db", "script.lua", s.size }
    assert(all.status == 1 and all.err:find "it stops here", all.err)
    os.remove(s.path .. "/stops")
    s:report("memory of a call", (all.peak_kib - tenth.peak_kib) * 1024 // (s.size * 9 // 10),
        "<=", BYTES_A_CALL + (8 << 20) // s.size, "bytes")
    report_memory(s, "writing", all)
    s:report_time("CPU of a call, relative to one of few",
        all.cpu_s / s.size / (few.cpu_s / small(s)), "<=", SLOWER)
end

-- Resumes the run that failed, which replays all its calls.
local function play(s)
    local few = s:run { "replay", "few.db" }
    local all = s:run { "resume", "all.db" }
    s:report("the answer is off by", math.abs(tonumber(all.out) - s.keep.sum), "<=", 0)
    report_memory(s, "resume", all)
    local played = s:run { "replay", "all.db" }
    report_memory(s, "replay", played)
    s:report_time("replay: CPU of a call, relative to one of few",
        played.cpu_s / s.size / (few.cpu_s / small(s)), "<=", SLOWER)
end

local function look(s)
    for _, words in ipairs { { "show", "all.db" }, { "show", "--calls", "all.db" },
        { "show", "--json", "all.db" }, { "show", "--call", s.size, "all.db" } } do
        report_memory(s, table.concat(words, " ", 1, #words - 1), s:run(words))
    end
end

local function diff(s)
    report_memory(s, "diff with itself", s:run { "diff", "all.db", "all.db" })
    local other = s:ponder { "diff", "all.db", "few.db" }
    assert(other.status < 2, other.err)
    report_memory(s, "diff with one of few", other)
end

return {
    size = 1000000,
    in_test = true,
    steps = {
        { "write", function(s)
            s:write("script.lua", SCRIPT)
            s:write("model.lua", MODEL)
            for _, name in ipairs { "few.db", "tenth.db", "all.db" } do
                os.remove(s.path .. "/" .. name)
            end
            write_both(s)
        end },
        { "resume and replay", play },
        { "look", look },
        { "diff", diff },
    },
}
