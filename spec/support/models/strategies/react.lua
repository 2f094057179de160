-- A model for scripts/strategies/react.lua: asks first in a wrong form, then calculates, then ends.

return function(request)
    local last = request.messages[#request.messages].content
    local count = last:match "<observation>\n(%-?%d+)\n</observation>"
    local text = 'Thought: compute it.\nAction: calculate {"expression": "6 * 7"}'
    if count then
        text = ('Thought: that is it.\nAction: finish {"answer": "%s"}'):format(count)
    elseif #request.messages == 2 then
        text = "Thought: compute it.\nAction: calculate 6 * 7"
    end
    return { text = text, usage = { input_tokens = 100, output_tokens = 10 } }
end
