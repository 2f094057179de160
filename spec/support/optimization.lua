--- `ponder optimize` for specs: an evaluation whose scripted model is right where its prompt has
--- the hint that a question needs, and writes prompts with one more hint. It notes each request in
--- the file `asked`, and ends its process at the request with number $KILL_AT.

local json = require "ponder.json"
local merge = require("ponder.base.options").merge
local shell = require "shell"
local store = require "ponder.core.store"

local optimization = {}

local MODEL = [[
local store = require "ponder.core.store"
local counter = package.loaded.counter or { n = 0 } -- each candidate opens the model
package.loaded.counter = counter
local function share_of(text) return tonumber(store.sha256(text):sub(1, 8), 16) / 16 ^ 8 end
return function(request)
    counter.n = counter.n + 1
    if counter.n == tonumber(os.getenv "KILL_AT") then
        io.popen(("kill -%s $PPID"):format(os.getenv "KILL_BY" or "KILL")):close()
    end
    local all = {}
    for i, message in ipairs(request.messages) do all[i] = message.content end
    local text = table.concat(all, "\n")
    require("ponder.task").sleep(share_of(text) * 0.002)
    local file <close> = assert(io.open("asked", "a"))
    file:write(store.sha256(text .. request.sample), "\n")
    local now = text:match "<current_prompt>\n(.-)\n</current_prompt>"
    local first = text:match "<version_a>\n(.-)\n</version_a>"
    local reply
    if now then
        reply = ("One more.\n<prompt>\n%s H%d.\n</prompt>"):format(now,
            share_of(text .. request.sample) * 8 // 1)
    elseif first then
        reply = ("<prompt>%s %s</prompt>"):format(first,
            text:match "<version_b>\n.-(H.-)\n</version_b>" or "")
    else
        local n = tonumber(text:match "question (%d+)")
        reply = share_of(text) < (text:find("H" .. n % 4 .. ".", 1, true) and 0.95 or 0.1)
            and "yes" or "no"
    end
    return { text = reply, usage = { input_tokens = 10, output_tokens = 1 } }
end]]

local EVAL = [[
local data = {}
for i = 1, 60 do data[i] = { id = "i" .. i, question = "question " .. i, target = "yes" } end
return { data = data, score = "exact", policies = {
    io = { model = "script:model.lua", prompt = "{{question}} Hints:" },
    cot = require("ponder.strategy.cot").new { model = "script:model.lua" },
    mine = function() return "yes" end,
} }]]

optimization.FILES = { ["model.lua"] = MODEL, ["hints.lua"] = EVAL }

---A directory with hints.lua and model.lua, and a function that runs ponder in it.
function optimization.directory()
    local dir = shell.directory(optimization.FILES)
    return dir, function(arguments, env)
        return dir:ponder(arguments, { env = merge({ HOME = dir.path, XDG_STATE_HOME = dir.path,
            XDG_CONFIG_HOME = dir.path }, env) })
    end
end

---The requests so far: how often each was made.
function optimization.asked(dir)
    local times, total = {}, 0
    local is_there, text = pcall(dir.read, dir, "asked")
    for key in (is_there and text or ""):gmatch "%S+" do
        times[key], total = (times[key] or 0) + 1, total + 1
    end
    return times, total
end

---What --json has printed, without what depends on how often it was interrupted.
function optimization.outcome(out)
    local value = assert(json.decode(out))
    value.spent = nil
    return value
end

-- The requests whose replies a log has.
local function answered_in(path)
    local db <close>, keys = assert(store.open(path, { mode = "read" })), {}
    for request, sample in db:rows "SELECT request, sample FROM calls WHERE reply IS NOT NULL" do
        local all = {}
        for i, message in ipairs(json.decode(request).messages) do
            all[i] = message.content
        end
        keys[#keys + 1] = store.sha256(table.concat(all, "\n") .. sample)
    end
    return keys
end

---Kills an optimization at random requests, resumes it until it is done, and checks that no reply
---that its log had was asked for again, and that the outcome is that of an undisturbed run.
---@param kills integer
---@param seed integer of the instants
---@param flags string[]
function optimization.kill(kills, seed, flags)
    local words = table.move(flags, 1, #flags, 3, { "optimize", "hints.lua" })
    table.move({ "--json", "--log", "run.db" }, 1, 3, #words + 1, words)
    local calm, ponder = optimization.directory()
    local whole = ponder(words)
    assert(whole.status == 0, whole.err)
    local _, total = optimization.asked(calm)
    math.randomseed(seed)
    local dir, again = optimization.directory()
    local killed, counts, last = 0, {} -- counts: of the requests whose replies the log has
    repeat
        local left = total - select(2, optimization.asked(dir))
        local at = killed < kills and math.random(1, math.max(1, math.min(left,
            2 * total // kills))) or nil
        last = again(killed > 0 and { "resume", "run.db" } or words,
            { KILL_AT = at and tostring(at) })
        for key, times in pairs(counts) do
            assert(optimization.asked(dir)[key] == times, "a paid call was made again")
        end
        counts = {}
        local times = optimization.asked(dir)
        for _, key in ipairs(answered_in(dir.path .. "/run.db")) do
            counts[key] = times[key]
        end
        killed = killed + (last.status ~= 0 and 1 or 0)
    until last.status == 0 or killed > kills
    assert(last.status == 0, last.err)
    return killed, optimization.outcome(whole.out), optimization.outcome(last.out)
end

return optimization
