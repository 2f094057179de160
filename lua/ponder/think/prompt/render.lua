--- Renders a prompt of a built-in prompt file, or of the user's in its place, outside of machines.

local builtin = require "ponder.base.builtin"
local contexts = require "ponder.think.prompt.context"
local log = require "ponder.log"
local notice = require "ponder.base.notice"
local options = require "ponder.base.options"
local prompt = require "ponder.prompt"

local render = {}

local MAX_TEXT_BYTES = 16000

---The option `on_cut` of a context: says in a notice and in the log which text was truncated.
---@param where string "tot"
function render.on_cut(where)
    return function(cut)
        notice.of_cut(where, cut)
        log.event(where .. ".text_cut", cut)
    end
end

---The messages of a prompt.
---@param file string "ensemble": of prompts/ensemble.lua
---@param name string of the prompt
---@param max_text_bytes? integer of each quoted text, default 16000
---@return ponder.model.Message[]? messages
---@return boolean|string is_own whether the prompt is the user's; or a message
---@return string? code
function render.of_file(file, name, fields, max_text_bytes)
    local where = ("prompts/%s.lua"):format(file)
    local prompts, message, code = prompt.load(file)
    if not prompts then
        return nil, message, code
    elseif type(prompts[name]) ~= "function" then
        return nil, ("%s: the function %s is missing"):format(where, name), "BAD_PROMPT"
    end
    local ok, messages = pcall(prompts[name], contexts.new(fields, max_text_bytes
        or MAX_TEXT_BYTES, render.on_cut(file)))
    if not ok or type(messages) ~= "table" or #messages == 0 then
        return nil, ok and ("%s: %s must return messages (got %s)"):format(where, name,
            options.show(messages)) or tostring(messages), "BAD_PROMPT"
    end
    return messages, prompts[name] ~= builtin.prompts(file)[name]
end

return render
