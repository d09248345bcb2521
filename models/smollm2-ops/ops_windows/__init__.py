"""Make the operations windows of protocols/smollm2-ops: conversations whose every answer the reference passes."""
