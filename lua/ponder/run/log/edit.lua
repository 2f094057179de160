--- The edit that a fork makes to the run it repeats: of the reply a node came from, of the reply of
--- a call, or of a call's prompt. Requests that do not depend on it are answered from the log; the
--- others are asked live.

local json = require "ponder.json"

local edit = {}

---@class ponder.log.Edit
---@field run integer runs.id
---@field call integer calls.id
---@field prompt string? replaces the last message of the call; if nil, its reply is edited
---@field samples table<integer, string>? new texts of the reply's samples, by index
---@field applied boolean? the fork has reached the edited call

local function sample_texts(reply)
    local draft, texts = reply and json.decode(reply), {}
    for i, sample in ipairs(type(draft) == "table" and draft.samples or {}) do
        texts[i] = type(sample.text) == "string" and sample.text or nil
    end
    return texts
end

-- Returns the reply with the thought replaced, or nil if the reply does not contain it.
local function replaced(reply, thought, text)
    for _, encode in ipairs { function(s) return s end,
        function(s) return json.encode(s):sub(2, -2) end } do -- plain, and inside a JSON string
        local from, to = reply:find(encode(thought), 1, true)
        if from then
            return reply:sub(1, from - 1) .. encode(text) .. reply:sub(to + 1)
        end
    end
end

---Makes the edit that gives a node another text: edits the first reply that contains the node's
---text, among the calls for its parent or for itself.
---@param db ponder.store.Store the log
---@param given {id: string, search: integer?, text: string}
---@return ponder.log.Edit?
---@return string? message
function edit.node(db, run, given)
    local found, number = {}, math.tointeger(tonumber(given.id)) or given.id
    for search, parent, text in db:rows([[SELECT search, coalesce(parent, ''), coalesce(text, '')
        FROM nodes WHERE run = ?1 AND id IN (?2, ?3) AND (?4 IS NULL OR search = ?4)
        ORDER BY search]], run, given.id, number, given.search) do
        found[#found + 1] = { search = search, parent = parent, text = text }
    end
    local node, name = found[1], "node " .. given.id
    if not node then
        return nil, ("the run has no %s"):format(name)
    elseif found[2] then
        return nil, ("%s is in the searches %d and %d; say --search N"):format(name, node.search,
            found[2].search)
    elseif node.parent == "" then
        return nil, ("%s is a root: its text is the question, not a reply"):format(name)
    end
    local calls = {}
    for call, reply in db:rows([[SELECT id, reply FROM calls WHERE run = ?1 AND search = ?2
        AND node IN (?3, ?4) AND reply IS NOT NULL ORDER BY node <> ?3, id]], run, node.search,
        node.parent, number) do
        calls[#calls + 1] = call
        for i, text in pairs(sample_texts(reply)) do
            local changed = replaced(text, node.text, given.text)
            if changed then
                return { run = run, call = call, samples = { [i] = changed } }
            end
        end
    end
    return nil, ("no reply contains the text of %s verbatim%s"):format(name, calls[1]
        and ("; edit a reply: --call %d --text FILE"):format(calls[1]) or "")
end

---Makes the edit that gives a call another reply or another prompt.
---@param given {call: integer, text: string?, prompt: string?}
---@return ponder.log.Edit?
---@return string? message
function edit.call(db, run, given)
    local id, reply = db:row("SELECT id, reply FROM calls WHERE run = ? AND id = ?", run,
        given.call)
    if not id then
        return nil, ("the run has no call %d"):format(given.call)
    elseif given.prompt then
        return { run = run, call = id, prompt = given.prompt }
    elseif not sample_texts(reply)[1] then
        return nil, ("call %d has no reply to edit"):format(id)
    end
    return { run = run, call = id, samples = { given.text } }
end

---Returns the results of a call with its reply edited.
---@param results table from ponder.run.log.call: {draft, n = 1}
function edit.apply(made, results)
    made.applied = true
    for i, text in pairs(made.samples) do
        results[1].samples[i].text = text
    end
    results[1].edited = true
    return results
end

return edit
