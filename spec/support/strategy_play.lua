--- A model that a spec plays: `play.model(function(request) return text or {text=...} end)`, and a
--- clock that moves only when all tasks wait.

local json = require "ponder.json"
local model = require "ponder.model"
local task = require "ponder.task"

local play = {}

local players = {}

model.register("play", { call = function(request)
    local player = players[tonumber(request.model)]
    return player(request)
end })

---The name of a model that answers as `player` says; it gets a ponder.model.Request.
---@param player fun(request: table): any, string?, string?
---@return string name
function play.model(player)
    players[#players + 1] = player
    return "play:" .. #players
end

---Runs f as the main task, on a clock of its own; returns what f returns.
function play.run(f)
    local now = 0
    return task.run_with({
        clock = function() return now end,
        wait = function(seconds) now = now + (seconds or 0) end,
    }, f)
end

---The purpose of a call, by the words of the built-in prompts.
---@param request table
---@return string
function play.role(request)
    local system = request.messages[1].content
    for _, row in ipairs {
        { "^You explore", "generate" }, { "^You judge", "evaluate" },
        { "^A program could not read", "repair" },
        { "^You solve a problem one", "thought" }, { "^Judge how far", "score" },
        { "^Find pairs", "connect" }, { "^Merge the", "aggregate" }, { "^Choose the", "vote" },
        { "^Improve the solution", "refine" },
        { "^You answer a question", "answer" }, { "^You examine", "reason" },
        { "^You grade", "supervise" }, { "^You improve", "improve" },
    } do
        if system:find(row[1]) then
            return row[2]
        end
    end
    error("unknown prompt: " .. system)
end

---The user's message of a request.
---@return string
function play.user(request)
    return request.messages[2].content
end

---A repeatable scramble of a text.
---@return integer
function play.hash(text)
    local state = 5381
    for i = 1, #text do
        state = (state * 33 ~ text:byte(i)) & 0xFFFFFF
    end
    return state
end

local REPLIES = { thought = "a thought", connect = "NONE", aggregate = "all of it",
    score = "n2: 0.5\nn3: 0.7\nn4: 0.6\nn5: 0.8\nn6: 0.9", refine = "better",
    answer = "hm\n<answer>\n42\n</answer>", supervise = "SCORE: 0.93" }

---What a model replies to any built-in prompt. Thoughts are named after their place, and scored by
---a hash: a deterministic tree.
---@param request table
---@return string
function play.reply(request)
    local role, user = play.role(request), play.user(request)
    if role == "generate" then
        local at = user:match "%- ([%d.]+)\n</steps" or "1"
        return json.encode { thoughts = { at .. ".1", at .. ".2", at .. ".3" } }
    elseif role == "evaluate" then
        local scores = {}
        for id, text in user:gmatch "<thought_(t%d+)>\n(.-)\n" do
            scores[id] = play.hash(text) % 90 / 100
        end
        return json.encode { scores = scores }
    end
    return REPLIES[role]
end

---Makes a temporary file that `play.remove_files` removes.
---@param text string
---@return string path
function play.file(text)
    local path = os.tmpname()
    local file <close> = assert(io.open(path, "wb"))
    file:write(text)
    play.files = play.files or {}
    table.insert(play.files, path)
    return path
end

function play.remove_files()
    for _, path in ipairs(play.files or {}) do
        os.remove(path)
    end
    play.files = nil
end

return play
