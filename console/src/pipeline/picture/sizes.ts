export const BOX_WIDTH = 176;
export const BOX_HEIGHT = 64;
export const GAP = 88;
export const ROW = BOX_HEIGHT + 16;
