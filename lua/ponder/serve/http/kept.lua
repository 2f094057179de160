--- The latest answers of /v1/responses, to which later requests may refer (previous_response_id,
--- item_reference, GET). Each key has its own, and never sees those of another.

local json = require "ponder.json"

local kept = {}

---@class ponder.serve.KeptAnswer
---@field text string the response as JSON
---@field messages {role: string, content: string}[] the conversation with the answer
---@field items table<string, table> its output by id

---@class ponder.serve.Kept
---@field private shelves table<any, table> by key
local Kept = {}
Kept.__index = Kept

---@param max_answers integer of each key; 0: none are kept
---@param max_bytes integer of the texts of each key's answers and conversations
function kept.new(max_answers, max_bytes)
    return setmetatable({ max_answers = max_answers, max_bytes = max_bytes, shelves = {} }, Kept)
end

-- What is kept for a key; nil: all who need none.
local function shelf_of(self, key)
    local owner = key or self
    local shelf = self.shelves[owner]
    if not shelf then
        shelf = { by_id = {}, items = {}, order = {}, bytes = 0 }
        self.shelves[owner] = shelf
    end
    return shelf
end

---Keeps an answer, in place of the oldest ones if there are too many.
---@param messages {role: string, content: string}[] the conversation with the answer
function Kept:add(key, body, messages)
    local answer = { id = body.id, text = json.encode(body), messages = messages, items = {} }
    answer.bytes = #answer.text
    for _, message in ipairs(messages) do
        answer.bytes = answer.bytes + #message.content
    end
    local shelf = shelf_of(self, key)
    for _, item in ipairs(body.output) do
        answer.items[item.id], shelf.items[item.id] = item, item
    end
    shelf.order[#shelf.order + 1], shelf.by_id[answer.id] = answer, answer
    shelf.bytes = shelf.bytes + answer.bytes
    while #shelf.order > self.max_answers or shelf.bytes > self.max_bytes do
        answer = table.remove(shelf.order, 1)
        shelf.by_id[answer.id], shelf.bytes = nil, shelf.bytes - answer.bytes
        for id in pairs(answer.items) do
            shelf.items[id] = nil
        end
    end
end

---@return ponder.serve.KeptAnswer? answer nil: it is not kept, or not for this key
function Kept:answer(key, id)
    return shelf_of(self, key).by_id[id]
end

function Kept:item(key, id)
    return shelf_of(self, key).items[id]
end

return kept
